//! Requests that come while a page is being written make the next one together.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Accepted, Log};
use crate::request::Framed;
use crate::{Error, Result};

/// Bytes of a page, about: what has gathered beyond goes into the next.
const PAGE: usize = 1 << 20;

/// Requests that wait for the page in progress to be written.
#[derive(Default)]
pub(super) struct Queue {
    leading: bool,
    waiting: Vec<Arc<Waiting>>,
}

pub(super) struct Waiting {
    requests: Vec<Framed>,
    done: Mutex<Option<Result<Vec<Accepted>>>>,
}

impl Log {
    /// Takes requests, all or none; returns when they survive what the stream's [`Ack`](terrace::Ack) says.
    ///
    /// # Errors
    /// Where one of them is not allowed, or the store takes nothing: then none was taken.
    pub fn append(&self, requests: Vec<Framed>) -> Result<Vec<Accepted>> {
        let mut queue = self.queue.lock();
        if !queue.leading {
            queue.leading = true;
            drop(queue);
            let result = self.write(&[&requests]).map(|mut accepted| accepted.pop().unwrap_or(Ok(Vec::new())));
            self.lead();
            return result.flatten();
        }
        let waiting = Arc::new(Waiting { requests, done: Mutex::new(None) });
        queue.waiting.push(waiting.clone());
        loop {
            self.turn.wait(&mut queue);
            if let Some(result) = waiting.done.lock().take() {
                return result;
            }
        }
    }

    /// Writes what gathered while this thread led, until nothing has.
    fn lead(&self) {
        loop {
            let mut queue = self.queue.lock();
            if queue.waiting.is_empty() {
                queue.leading = false;
                return;
            }
            let mut bytes = 0;
            let fits = |waiting: &&Arc<Waiting>| {
                let fits = bytes < PAGE;
                bytes += waiting.requests.iter().map(|one| one.request.bytes.len()).sum::<usize>();
                fits
            };
            let count = queue.waiting.iter().take_while(fits).count();
            let group: Vec<Arc<Waiting>> = queue.waiting.drain(..count).collect();
            drop(queue);
            let requests: Vec<&Vec<Framed>> = group.iter().map(|waiting| &waiting.requests).collect();
            match self.write(&requests) {
                Ok(accepted) => {
                    for (waiting, accepted) in group.iter().zip(accepted) {
                        *waiting.done.lock() = Some(accepted);
                    }
                }
                Err(e) => {
                    let e = Arc::new(e);
                    group.iter().for_each(|waiting| *waiting.done.lock() = Some(Err(Error::Shared(e.clone()))));
                }
            }
            // The lock is taken so that no waiter is between its check and its wait.
            let _queue = self.queue.lock();
            self.turn.notify_all();
        }
    }
}
