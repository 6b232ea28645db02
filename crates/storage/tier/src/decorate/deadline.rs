//! A time limit for calls: a disk or network file system that hangs must not hang its callers.
//!
//! Each call runs on a thread of the target. If the call does not return in time, the thread is left behind.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_format::frame::{Frame, Header};

use super::files;
use crate::{Adoption, FileStore, Place, Space, Target, Whole};

/// While this many calls hang, no more are begun: each of them occupies a thread.
const MAX_HUNG_CALLS: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// A target whose calls end in time, if need be with an error.
pub struct Deadline {
    inner: Arc<dyn Target>,
    limit: Duration,
    jobs: Sender<Job>,
    lanes: Arc<Lanes>,
}

/// Threads (lanes) that wait for jobs until the target is dropped.
struct Lanes {
    /// Held by the one idle lane that waits for the next job; all others wait for the lock. It is released before the job
    /// runs, so a job that hangs holds up nobody.
    jobs: Mutex<Receiver<Job>>,
    /// The number of waiting lanes that no job is meant for yet. A job is sent only after it was lowered or a lane was
    /// started, so no job waits behind one that hangs. It is a mere count: the channel carries the data.
    idle: AtomicUsize,
    /// The number of calls that were given up and have not returned. Their callers add them, and their lanes take them off.
    hung: AtomicUsize,
}

impl Lanes {
    fn start(self: &Arc<Self>) -> io::Result<()> {
        let lanes = self.clone();
        let lane = move || {
            loop {
                // A statement of its own, so that the lock is released before the job runs.
                let job = lanes.jobs.lock().recv();
                let Ok(job) = job else { return };
                job();
                // From here on this lane takes the next job for sure: it goes straight back to the channel.
                lanes.idle.fetch_add(1, Ordering::AcqRel);
            }
        };
        std::thread::Builder::new().name("terrace-lane".into()).spawn(lane).map(drop)
    }
}

impl Deadline {
    /// Wraps a target. Each call may take `limit`.
    pub fn new(inner: Arc<dyn Target>, limit: Duration) -> Deadline {
        let (jobs, receive) = channel();
        let lanes = Lanes { jobs: Mutex::new(receive), idle: AtomicUsize::new(0), hung: AtomicUsize::new(0) };
        Deadline { inner, limit, jobs, lanes: Arc::new(lanes) }
    }

    fn give(&self, job: Job) -> io::Result<()> {
        // Reserves one idle lane, or none is left. The update is atomic, so two callers never reserve the same lane.
        let taken = self.lanes.idle.try_update(Ordering::AcqRel, Ordering::Acquire, |idle| idle.checked_sub(1));
        if taken.is_err() {
            self.lanes.start()?;
        }
        self.jobs.send(job).map_err(|_| io::Error::other("the lanes have ended"))
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Target) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let late = |what: &str| io::Error::new(io::ErrorKind::TimedOut, format!("{what} after {:?}", self.limit));
        // The count may be too high for a moment (see below), or callers may pass it at the same time: it only limits how many
        // threads are left behind, and need not be exact.
        if self.lanes.hung.load(Ordering::Acquire) >= MAX_HUNG_CALLS {
            return Err(late("earlier calls have not returned"));
        }
        let (send, receive) = sync_channel(1);
        let (inner, lanes) = (self.inner.clone(), self.lanes.clone());
        let state = Arc::new(AtomicUsize::new(WAITED_FOR));
        let of_lane = state.clone();
        self.give(Box::new(move || {
            let result = work(&*inner);
            // Both sides swap their state in, so exactly one of them sees the other's and takes the call off the count.
            if of_lane.swap(STATE_DONE, Ordering::AcqRel) == GIVEN_UP {
                lanes.hung.fetch_sub(1, Ordering::AcqRel);
            }
            // If this fails, the caller has given up, and nobody needs the result.
            let _ = send.send(result);
        }))?;
        receive.recv_timeout(self.limit).unwrap_or_else(|_| {
            // Added before the swap: the lane may take it off at once, and the count must not fall below 0.
            self.lanes.hung.fetch_add(1, Ordering::AcqRel);
            if state.swap(GIVEN_UP, Ordering::AcqRel) == STATE_DONE {
                self.lanes.hung.fetch_sub(1, Ordering::AcqRel);
            }
            Err(late("no answer"))
        })
    }
}

const WAITED_FOR: usize = 0;
const GIVEN_UP: usize = 1;
const STATE_DONE: usize = 2;

impl Target for Deadline {
    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        let (header, payload) = (frame.header.clone(), frame.payload.to_vec());
        self.run(move |inner| inner.append(&Frame { header, payload: &payload }))
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let length = out.len();
        let bytes = self.run(move |inner| {
            let mut bytes = vec![0; length];
            inner.read(place, skip, &mut bytes).map(|()| bytes)
        })?;
        out.copy_from_slice(&bytes);
        Ok(())
    }

    fn is_whole(&self, place: Place) -> io::Result<bool> {
        self.run(move |inner| inner.is_whole(place))
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        let segments = segments.to_vec();
        self.run(move |inner| inner.sync(&segments))
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        let places = places.to_vec();
        self.run(move |inner| inner.free(&places))
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.run(move |inner| inner.discard(segment))
    }

    fn allocated(&self, segment: u64) -> u64 {
        self.run(move |inner| Ok(inner.allocated(segment))).unwrap_or(0)
    }

    fn sync_failed(&self, segment: u64) -> bool {
        self.run(move |inner| Ok(inner.sync_failed(segment))).unwrap_or(false)
    }

    fn space(&self) -> io::Result<Space> {
        self.run(|inner| inner.space())
    }

    /// Has no time limit, because it reads the headers of the whole target.
    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        self.inner.scan(found)
    }

    fn ready(&self) -> io::Result<()> {
        self.run(|inner| inner.ready())
    }

    fn check_again(&self) -> io::Result<()> {
        self.run(|inner| inner.check_again())
    }

    delegate!(used files note_synced synced_to note_new is_new forget_new named_blobs file);
}

impl FileStore for Deadline {
    fn write_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        let (header, payload) = (frame.header.clone(), frame.payload.to_vec());
        self.run(move |inner| files(inner)?.write_frame(file, &Frame { header, payload: &payload }))
    }

    fn adopt(&self, file: u64, source: &File) -> io::Result<Option<Adoption>> {
        let source = source.try_clone()?;
        self.run(move |inner| files(inner)?.adopt(file, &source))
    }

    fn describe_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        let (header, payload) = (frame.header.clone(), frame.payload.to_vec());
        self.run(move |inner| files(inner)?.describe_frame(file, &Frame { header, payload: &payload }))
    }

    fn is_linked(&self, file: u64) -> bool {
        self.run(move |inner| Ok(files(inner)?.is_linked(file))).unwrap_or(false)
    }

    fn set_name(&self, key: &[u8], now: Option<&Whole>, before: &[u64]) -> io::Result<bool> {
        let (key, now, before) = (key.to_vec(), now.copied(), before.to_vec());
        self.run(move |inner| files(inner)?.set_name(&key, now.as_ref(), &before))
    }

    fn is_named(&self, key: &[u8], whole: &Whole) -> io::Result<bool> {
        let (key, whole) = (key.to_vec(), *whole);
        self.run(move |inner| files(inner)?.is_named(&key, &whole))
    }

    fn names(&self) -> io::Result<Vec<(Vec<u8>, u64)>> {
        self.run(|inner| files(inner)?.names())
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        self.run(|inner| files(inner)?.numbers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decorate::Faults;
    use crate::{Ids, MemoryTarget};
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    struct Numbers(AtomicU64);

    impl Ids for Numbers {
        fn next(&self) -> io::Result<u64> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[test]
    fn a_call_that_hangs_ends_in_time_and_the_target_comes_back() {
        let faults = Faults::new(Arc::new(MemoryTarget::new(1, 1 << 20, Arc::new(Numbers(AtomicU64::new(1))))));
        let plan = faults.plan();
        let target = Deadline::new(Arc::new(faults), Duration::from_millis(50));
        target.space().expect("an answer");
        let before = plan.count();
        // Until the faults end.
        plan.hang(Duration::MAX);
        for _ in 0..20 {
            assert_eq!(target.space().expect_err("late").kind(), io::ErrorKind::TimedOut);
        }
        let begun = (plan.count() - before) as usize;
        assert_eq!(begun, MAX_HUNG_CALLS, "later calls are refused without one more thread that hangs");
        assert_eq!(
            target.lanes.hung.load(Ordering::Acquire),
            MAX_HUNG_CALLS,
            "no caller waited for its call to come back"
        );
        plan.heal();
        let begin = Instant::now();
        while target.lanes.hung.load(Ordering::Acquire) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "calls that come back are forgotten");
            std::thread::sleep(Duration::from_millis(10));
        }
        for _ in 0..20 {
            target.space().expect("an answer");
        }
    }
}
