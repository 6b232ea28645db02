//! Reading ahead: while a file is read in order, threads fetch and verify the next bytes before the reader asks for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix_futex_sync::Mutex;
use terrace_catalog::{Extent, Object};
use terrace_system::fork;

use crate::{Result, Store};

/// The number of threads that fetch.
const READ_AHEAD_THREADS: usize = 2;
/// Nothing is fetched ahead before this number of bytes was read in order.
const MIN_BYTES_IN_ORDER: u64 = 512 << 10;
/// The reader's distance to the end of the fetched bytes is at most what was read in order, and at most this.
const MAX_READ_AHEAD_BYTES: u64 = 4 << 20;
/// The kernel may split one long read into requests that arrive out of order. A request still counts as in order if its
/// offset differs by at most this number of request lengths.
const SLACK_BLOCKS: u64 = 4;

/// How one handle reads a file.
#[derive(Default)]
pub struct Course {
    /// The offset at which the next read in order begins.
    next: u64,
    /// Bytes read in order so far.
    run: u64,
    /// The end of the range that was fetched ahead.
    asked: u64,
    /// The frames that were asked for.
    names: Vec<(u64, u64)>,
}

impl Course {
    /// Notes a read. Returns the range that should be fetched now, if any.
    fn read(&mut self, offset: u64, length: u64) -> Option<(u64, u64)> {
        let end = offset + length;
        if self.next.abs_diff(offset) <= SLACK_BLOCKS.saturating_mul(length) {
            self.run = self.run.saturating_add(length);
            self.next = self.next.max(end);
        } else {
            (self.next, self.run, self.asked) = (end, length, end);
        }
        let window = self.run.min(MAX_READ_AHEAD_BYTES);
        self.asked = self.asked.max(self.next);
        let want = self.run >= MIN_BYTES_IN_ORDER && self.asked - self.next <= window / 2;
        want.then(|| (std::mem::replace(&mut self.asked, self.next + window), self.next + window))
    }

    /// Ends reading: the frames that were asked for are not needed any more.
    pub fn end(&mut self, store: &Store) {
        if !self.names.is_empty() {
            store.engine.reader.fetched.forget(&self.names);
        }
    }
}

/// The threads, which are started when they are first needed. The lock is held while they are started, and while a job is
/// sent, which never blocks. No other lock is taken under it.
#[derive(Default)]
pub struct Ahead(Mutex<Option<Threads>>);

struct Threads {
    sender: Sender<Job>,
    all: Vec<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    forks: u32,
}

/// An extent to fetch.
struct Job {
    store: Store,
    object: Arc<(Vec<u8>, Object)>,
    extent: Extent,
}

impl Ahead {
    /// Notes a read, and fetches the next bytes if the file is read in order.
    pub fn note(&self, store: &Store, course: &Mutex<Course>, key: &[u8], offset: u64, length: u64) {
        let mut course = course.lock();
        if let Some((from, to)) = course.read(offset, length)
            && let Err(error) = self.ask(store, &mut course, key, from, to)
        {
            tracing::debug!(key = %terrace_format::key::show(key), %error, "reading ahead failed");
        }
    }

    /// Fetches the extents that begin in `from..to`.
    fn ask(&self, store: &Store, course: &mut Course, key: &[u8], from: u64, to: u64) -> Result<()> {
        let engine = &store.engine;
        let Some((object, extents)) = engine.catalog.locate(key, from, to)? else { return Ok(()) };
        let object = Arc::new((key.to_vec(), object));
        for extent in extents.into_iter().filter(|extent| extent.offset >= from) {
            course.asked = course.asked.max(extent.end());
            if engine.reader.is_costly(&extent)? && engine.reader.fetched.queue(&extent) {
                course.names.push(extent.frame());
                self.send(Job { store: store.clone(), object: object.clone(), extent });
            }
        }
        let surplus = course.names.len().saturating_sub(2 * (MAX_READ_AHEAD_BYTES >> 20) as usize);
        course.names.drain(..surplus);
        Ok(())
    }

    fn send(&self, job: Job) {
        // Sending fails only if no thread could be started. Then nobody may wait for the frame.
        if let Err(refused) = self.0.lock().get_or_insert_with(Threads::start).sender.send(job) {
            refused.0.forget();
        }
    }
}

impl Threads {
    fn start() -> Threads {
        let (sender, receiver) = channel();
        let (receiver, stopping) = (Arc::new(Mutex::new(receiver)), Arc::new(AtomicBool::new(false)));
        let start = |_| {
            let (receiver, stopping) = (receiver.clone(), stopping.clone());
            std::thread::Builder::new().name("terrace-ahead".into()).spawn(move || work(&receiver, &stopping)).ok()
        };
        Threads { sender, all: (0..READ_AHEAD_THREADS).filter_map(start).collect(), stopping, forks: fork::count() }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, stopping: &AtomicBool) {
    loop {
        // One idle thread waits for a job, and the others wait for the lock. It is released before the job runs.
        let job = jobs.lock().recv();
        match job {
            // Relaxed: a thread that sees it late fetches one more extent, and then finds the channel closed.
            Ok(job) if !stopping.load(Ordering::Relaxed) => job.fetch(),
            Ok(job) => job.forget(),
            Err(_) => return,
        }
    }
}

/// A frame that is being fetched.
struct Fetching<'a> {
    job: &'a Job,
    /// Its bytes, once they are there.
    bytes: Option<Vec<u8>>,
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        // Here, so that a panic ends it, too: a reader may wait for it.
        self.job.store.engine.reader.fetched.end(&self.job.extent, self.bytes.take());
    }
}

impl Job {
    fn fetch(&self) {
        let (engine, extent) = (&self.store.engine, &self.extent);
        let Some(mut bytes) = engine.reader.fetched.begin(extent) else { return };
        let mut fetching = Fetching { job: self, bytes: None };
        let (key, object) = &*self.object;
        let read = engine.reader.read_from_replicas(key, object, extent, extent.skip, &mut bytes);
        // If the read fails, the reader reads the extent itself and reports the error.
        fetching.bytes = read.ok().map(|()| bytes);
    }

    fn forget(&self) {
        self.store.engine.reader.fetched.forget(&[self.extent.frame()]);
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let Some(Threads { sender, all, stopping, forks }) = self.0.get_mut().take() else { return };
        if forks != fork::count() {
            // In a fork there are no threads to end.
            return std::mem::forget((sender, all));
        }
        stopping.store(true, Ordering::Relaxed);
        drop(sender);
        for thread in all {
            // A panic there has been printed; nothing is left to do about it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_in_order_is_fetched_ahead_and_never_twice() {
        let mut course = Course::default();
        let (mut at, mut asked) = (0, 0);
        while at < 64 << 20 {
            if let Some((from, to)) = course.read(at, 100_000) {
                assert!(from >= asked && to > from && to <= at + 100_000 + MAX_READ_AHEAD_BYTES, "{from} {to} at {at}");
                asked = to;
            }
            at += 100_000;
        }
        assert!(asked >= 64 << 20);
        // Threads may take the requests of a long read in another order.
        let mut course = Course::default();
        let ranges = [3, 1, 0, 2, 5, 7, 4, 6].map(|at: u64| course.read(at << 20, 1 << 20));
        assert!(ranges[2..].iter().any(Option::is_some));
        // Here and there is no order.
        let mut course = Course::default();
        let mut random = terrace_testkit::Random::new(1);
        for _ in 0..1000 {
            assert_eq!(course.read(random.bits() >> 24, 100_000), None);
        }
    }
}
