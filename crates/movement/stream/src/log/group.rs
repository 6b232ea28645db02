//! Requests that come while a page is being written make the next one together.
//!
//! Where nothing is being written, who appends writes the page, too. All else is left to a thread, which ends when there
//! has been nothing to write for a while: so nobody writes for others for longer than it takes to write its own.

use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;

use super::{Accepted, Log};
use crate::request::Framed;
use crate::{Error, Result};

/// Bytes of a page, about: what has gathered beyond goes into the next, and who submits more waits.
const PAGE: usize = 1 << 20;
/// How long requests that nobody waits for gather.
const GATHER: Duration = Duration::from_millis(1);
/// A thread that has had nothing to write for so long ends.
const REST: Duration = Duration::from_millis(10);

/// Requests that wait for the page in progress to be written.
#[derive(Default)]
pub(super) struct Queue {
    /// Whether some thread writes pages.
    leading: bool,
    waiting: Vec<Arc<Waiting>>,
    /// Bytes of these.
    bytes: usize,
    /// Whether somebody waits for one of them.
    urgent: bool,
}

struct Waiting {
    requests: Vec<Framed>,
    done: Mutex<Option<Result<Vec<Accepted>>>>,
}

/// Requests that were handed over, and may not be accepted yet. They are lost if the process ends before they are.
#[must_use = "only `wait` tells whether they were accepted"]
pub struct Submitted {
    log: Arc<Log>,
    waiting: Arc<Waiting>,
}

impl Submitted {
    /// Returns when the requests survive what the stream's [`Ack`](terrace::Ack) says.
    ///
    /// # Errors
    /// Where one of them is not allowed, or the store takes nothing: then none was taken.
    pub fn wait(self) -> Result<Vec<Accepted>> {
        let mut queue = self.log.queue.lock();
        loop {
            if let Some(result) = self.waiting.done.lock().take() {
                return result;
            }
            if !std::mem::replace(&mut queue.urgent, true) {
                self.log.come.notify_one();
            }
            queue = self.log.turn.wait(queue);
        }
    }

    /// Whether it is known what became of them.
    pub fn is_done(&self) -> bool {
        self.waiting.done.lock().is_some()
    }
}

impl Log {
    /// Takes requests, all or none; returns when they survive what the stream's [`Ack`](terrace::Ack) says.
    ///
    /// # Errors
    /// Where one of them is not allowed, or the store takes nothing: then none was taken.
    pub fn append(self: &Arc<Log>, requests: Vec<Framed>) -> Result<Vec<Accepted>> {
        let mut queue = self.queue.lock();
        if queue.leading {
            drop(queue);
            return self.submit(requests).wait();
        }
        queue.leading = true;
        drop(queue);
        let result = self.write(&[&requests]).map(|mut accepted| accepted.pop().unwrap_or(Ok(Vec::new())));
        let mut queue = self.queue.lock();
        queue.leading = false;
        self.lead_if_any(&mut queue);
        drop(queue);
        result.flatten()
    }

    /// Hands requests over, which are taken soon, all or none. Returns at once, but where more wait than make a page.
    pub fn submit(self: &Arc<Log>, requests: Vec<Framed>) -> Submitted {
        let waiting = Arc::new(Waiting { requests, done: Mutex::new(None) });
        let mut queue = self.queue.lock();
        while queue.bytes >= PAGE {
            queue = self.turn.wait(queue);
        }
        queue.bytes += waiting.bytes();
        queue.waiting.push(waiting.clone());
        if queue.waiting.len() == 1 || queue.bytes >= PAGE {
            self.come.notify_one();
        }
        self.lead_if_any(&mut queue);
        Submitted { log: self.clone(), waiting }
    }

    /// Has a thread write what waits, unless some thread is writing.
    fn lead_if_any(self: &Arc<Log>, queue: &mut Queue) {
        if queue.leading || queue.waiting.is_empty() {
            return;
        }
        let log = self.clone();
        let thread = std::thread::Builder::new().name("terrace-log".into()).spawn(move || log.lead());
        match thread {
            Ok(_) => queue.leading = true,
            Err(e) => {
                let waiting = std::mem::take(&mut queue.waiting);
                self.answer(queue, waiting, Err(Error::io("starting a thread")(e)));
            }
        }
    }

    /// Writes what gathers, until nothing has for a while.
    fn lead(&self) {
        let mut queue = self.queue.lock();
        loop {
            if queue.waiting.is_empty() {
                (queue, _) = self.come.wait_timeout(queue, REST);
            }
            if queue.waiting.is_empty() {
                queue.leading = false;
                return;
            }
            let gathers = |queue: &mut Queue| !queue.urgent && queue.bytes < PAGE;
            (queue, _) = self.come.wait_timeout_while(queue, GATHER, gathers);
            let mut bytes = 0;
            let fits = |waiting: &&Arc<Waiting>| {
                let fits = bytes < PAGE;
                bytes += waiting.bytes();
                fits
            };
            let count = queue.waiting.iter().take_while(fits).count();
            let group: Vec<Arc<Waiting>> = queue.waiting.drain(..count).collect();
            // Those that wait say so again, unless it is these that they wait for.
            queue.urgent = false;
            drop(queue);
            let requests: Vec<&Vec<Framed>> = group.iter().map(|waiting| &waiting.requests).collect();
            let written = self.write(&requests);
            queue = self.queue.lock();
            self.answer(&mut queue, group, written);
        }
    }

    /// Tells those who wait for a group what became of it.
    fn answer(&self, queue: &mut Queue, group: Vec<Arc<Waiting>>, written: Result<Vec<Result<Vec<Accepted>>>>) {
        let answers = written.unwrap_or_else(|e| {
            let e = Arc::new(e);
            group.iter().map(|_| Err(Error::Shared(e.clone()))).collect()
        });
        for (waiting, answer) in group.iter().zip(answers) {
            queue.bytes = queue.bytes.saturating_sub(waiting.bytes());
            *waiting.done.lock() = Some(answer);
        }
        self.turn.notify_all();
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.requests.iter().map(|one| one.request.bytes.len() + 64).sum()
    }
}
