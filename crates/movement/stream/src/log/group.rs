//! Group commit: requests that arrive while a page is being written share the next page.
//!
//! If no page is being written, the appending thread writes the page itself. All other requests are written by a background thread, which
//! ends after a short time without work. So no caller writes for others for longer than its own page takes.

use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;

use super::{Accepted, Log};
use crate::request::Framed;
use crate::{Error, Result};

/// The approximate size of a page. Requests beyond it go into the next page, and callers that submit more wait.
const PAGE_BYTES: usize = 1 << 20;
/// How long requests without a waiting caller are gathered into one page.
const GATHER_TIME: Duration = Duration::from_millis(1);
/// The writer thread ends after this time without work.
const WRITER_IDLE_TIME: Duration = Duration::from_millis(10);

/// Requests that wait until the page in progress is written.
#[derive(Default)]
pub(super) struct Queue {
    /// Whether a thread is writing pages.
    is_writing: bool,
    waiting: Vec<Arc<Waiting>>,
    /// Total size of the waiting requests in bytes.
    bytes: usize,
    /// Whether a caller waits for one of them.
    urgent: bool,
}

struct Waiting {
    requests: Vec<Framed>,
    /// The result, once there is one. Taken under the queue's lock or alone, for one look or change. The writer fills it under
    /// the queue's lock and then signals, so a caller that looked under that lock does not miss it.
    done: Mutex<Option<Result<Vec<Accepted>>>>,
}

/// Requests that were submitted and may not be accepted yet. They are lost if the process ends before they are.
#[must_use = "only `wait` tells whether they were accepted"]
pub struct Submitted {
    log: Arc<Log>,
    waiting: Arc<Waiting>,
}

impl Submitted {
    /// Returns once the requests have the durability that the stream's [`Ack`](terrace::Ack) requires.
    ///
    /// # Errors
    /// If one request is invalid or the store cannot accept them. No request is accepted then.
    pub fn wait(self) -> Result<Vec<Accepted>> {
        let mut queue = self.log.queue.lock();
        loop {
            if let Some(result) = self.waiting.done.lock().take() {
                return result;
            }
            if !std::mem::replace(&mut queue.urgent, true) {
                self.log.requests_waiting.notify_one();
            }
            queue = self.log.page_written.wait(queue);
        }
    }

    /// Whether the outcome of the requests is known.
    pub fn is_done(&self) -> bool {
        self.waiting.done.lock().is_some()
    }
}

impl Log {
    /// Appends all or none of the requests, and returns once they have the durability that the stream's [`Ack`](terrace::Ack) requires.
    ///
    /// # Errors
    /// If one request is invalid or the store cannot accept them. No request is accepted then.
    pub fn append(self: &Arc<Log>, requests: Vec<Framed>) -> Result<Vec<Accepted>> {
        // Released before the page is written: see `Log::queue`. `is_writing` keeps others from writing meanwhile.
        let mut queue = self.queue.lock();
        if queue.is_writing {
            drop(queue);
            return self.submit(requests).wait();
        }
        queue.is_writing = true;
        drop(queue);
        let result = self.write(&[&requests]).map(|mut accepted| accepted.pop().unwrap_or(Ok(Vec::new())));
        let mut queue = self.queue.lock();
        queue.is_writing = false;
        self.start_writer_if_needed(&mut queue);
        drop(queue);
        result.flatten()
    }

    /// Submits requests. All or none of them are appended soon. Returns at once unless more than one page of requests is waiting.
    pub fn submit(self: &Arc<Log>, requests: Vec<Framed>) -> Submitted {
        let waiting = Arc::new(Waiting { requests, done: Mutex::new(None) });
        let mut queue = self.queue.lock();
        while queue.bytes >= PAGE_BYTES {
            queue = self.page_written.wait(queue);
        }
        queue.bytes += waiting.bytes();
        queue.waiting.push(waiting.clone());
        if queue.waiting.len() == 1 || queue.bytes >= PAGE_BYTES {
            self.requests_waiting.notify_one();
        }
        self.start_writer_if_needed(&mut queue);
        Submitted { log: self.clone(), waiting }
    }

    /// Starts a writer thread if requests wait and no thread is writing.
    fn start_writer_if_needed(self: &Arc<Log>, queue: &mut Queue) {
        if queue.is_writing || queue.waiting.is_empty() {
            return;
        }
        let log = self.clone();
        let thread = std::thread::Builder::new().name("terrace-log".into()).spawn(move || log.write_pages());
        match thread {
            Ok(_) => queue.is_writing = true,
            Err(e) => {
                let waiting = std::mem::take(&mut queue.waiting);
                self.answer(queue, waiting, Err(Error::io("starting a thread")(e)));
            }
        }
    }

    /// Writes the waiting requests until none have arrived for a while.
    fn write_pages(&self) {
        let mut queue = self.queue.lock();
        loop {
            if queue.waiting.is_empty() {
                (queue, _) = self.requests_waiting.wait_timeout(queue, WRITER_IDLE_TIME);
            }
            if queue.waiting.is_empty() {
                queue.is_writing = false;
                return;
            }
            let gathers = |queue: &mut Queue| !queue.urgent && queue.bytes < PAGE_BYTES;
            (queue, _) = self.requests_waiting.wait_timeout_while(queue, GATHER_TIME, gathers);
            let mut bytes = 0;
            let fits = |waiting: &&Arc<Waiting>| {
                let fits = bytes < PAGE_BYTES;
                bytes += waiting.bytes();
                fits
            };
            let count = queue.waiting.iter().take_while(fits).count();
            let group: Vec<Arc<Waiting>> = queue.waiting.drain(..count).collect();
            // Callers that still wait set the flag again, unless they wait for this group.
            queue.urgent = false;
            drop(queue);
            let requests: Vec<&Vec<Framed>> = group.iter().map(|waiting| &waiting.requests).collect();
            let written = self.write(&requests);
            // Not held during the write, so that callers can submit meanwhile.
            queue = self.queue.lock();
            self.answer(&mut queue, group, written);
        }
    }

    /// Passes the result of a group to its callers.
    fn answer(&self, queue: &mut Queue, group: Vec<Arc<Waiting>>, written: Result<Vec<Result<Vec<Accepted>>>>) {
        let answers = written.unwrap_or_else(|e| {
            let e = Arc::new(e);
            group.iter().map(|_| Err(Error::Shared(e.clone()))).collect()
        });
        for (waiting, answer) in group.iter().zip(answers) {
            queue.bytes = queue.bytes.saturating_sub(waiting.bytes());
            *waiting.done.lock() = Some(answer); // under the queue's lock: see the field
        }
        self.page_written.notify_all();
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.requests.iter().map(|one| one.request.bytes.len() + 64).sum()
    }
}
