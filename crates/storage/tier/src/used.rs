//! How much a target holds: counted by all processes as they write, and measured now and then.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use terrace_system::clock::monotonic_nanos;
use terrace_system::words::Words;

/// A measurement older than this is repeated; what is written meanwhile is added to it.
const MAX_MEASUREMENT_AGE_NANOS: u64 = 1_000_000_000;

/// Bytes that a target holds.
#[derive(Default)]
pub struct Used {
    /// How many, and when they were measured last, by the monotonic clock.
    shared: Words<2>,
    /// Bytes that this process is writing just now: who measures may not find them yet.
    writing: AtomicU64,
}

/// Room for bytes, as long as they are being written.
#[must_use = "the bytes are taken for written when it is dropped"]
pub struct Taken<'a>(&'a Used, u64);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(self.1, AcqRel);
    }
}

impl Used {
    /// As all processes count by this file.
    pub fn open(path: &Path) -> Used {
        let used = Used { shared: Words::open(path), ..Used::default() };
        // What it says may be of an earlier boot.
        used.is_stale();
        used
    }

    /// As counted, about.
    pub fn counted(&self) -> u64 {
        let [bytes, _] = self.shared.all();
        bytes.load(Acquire)
    }

    /// As counted; measured anew where that was long ago.
    pub fn get(&self, measure: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
        let [bytes, measured] = self.shared.all();
        let (now, at) = (monotonic_nanos(), measured.load(Acquire));
        let fresh = at != 0 && now.checked_sub(at).is_some_and(|age| age <= MAX_MEASUREMENT_AGE_NANOS);
        if fresh {
            return Ok(self.counted());
        }
        // Read before the time is set: another process adds to the bytes only after it has seen a new time or failed
        // to set one, so all that is taken while this one measures is in the difference, and stays counted.
        let before = bytes.load(Acquire);
        if measured.compare_exchange(at, now, AcqRel, Acquire).is_ok() {
            let writing = self.writing.load(Acquire);
            let found = measure().inspect_err(|_| self.is_stale())?;
            let with_taken = |bytes: u64| Some(found + writing + bytes.saturating_sub(before));
            let _ = bytes.fetch_update(AcqRel, Acquire, with_taken); // the closure never refuses
        }
        Ok(self.counted())
    }

    /// Takes room for bytes that are about to be written.
    ///
    /// # Errors
    /// `StorageFull` where they would be too many; what `measure` says.
    pub fn take(&self, more: u64, capacity: u64, measure: impl FnOnce() -> io::Result<u64>) -> io::Result<Taken<'_>> {
        self.get(measure)?;
        self.writing.fetch_add(more, AcqRel);
        let taken = Taken(self, more);
        let [bytes, _] = self.shared.all();
        if bytes.fetch_add(more, AcqRel).saturating_add(more) > capacity {
            let _ = bytes.fetch_update(AcqRel, Acquire, |bytes| Some(bytes.saturating_sub(more)));
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }

    /// It is to be measured before it is next looked at.
    pub fn is_stale(&self) {
        let [_, measured] = self.shared.all();
        measured.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_together_take_no_more_than_there_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let of_processes: Vec<Used> = (0..4).map(|_| Used::open(&dir.path().join("used"))).collect();
        let written = AtomicU64::new(1_000);
        // A busy machine may take longer than a measurement is trusted: what is measured grows with what is written.
        let take_ten = |used: &Used| match used.take(10, 20_000, || Ok(written.load(Acquire))) {
            Ok(_room) => written.fetch_add(10, AcqRel) > 0,
            Err(_) => false,
        };
        let taken: usize = std::thread::scope(|scope| {
            let take = |used: &Used| (0..1000).filter(|_| take_ten(used)).count();
            let threads: Vec<_> = of_processes.iter().map(|used| scope.spawn(move || take(used))).collect();
            threads.into_iter().map(|thread| thread.join().expect("adds")).sum()
        });
        assert_eq!(taken, 1_900);
        assert_eq!(of_processes[3].counted(), 20_000);
        assert!(of_processes[1].take(1, 20_000, || Ok(0)).is_err());
    }

    #[test]
    fn what_another_process_takes_while_one_measures_stays_counted() {
        let dir = tempfile::tempdir().expect("a folder");
        let [measuring, writing] = [(); 2].map(|()| Used::open(&dir.path().join("used")));
        let measure = || {
            drop(writing.take(10, 100, || Ok(0)).expect("room"));
            Ok(50)
        };
        assert_eq!(measuring.get(measure).expect("measures"), 60);
    }

    #[test]
    fn what_is_being_written_is_counted_though_it_is_not_found_yet() {
        let used = Used::default();
        let room = used.take(10, 100, || Ok(50)).expect("room");
        used.is_stale();
        assert_eq!(used.get(|| Ok(50)).expect("measures"), 60);
        drop(room);
        used.is_stale();
        // One writes while another measures.
        let measure = || {
            drop(used.take(30, 100, || Ok(0)).expect("room"));
            Ok(60)
        };
        assert_eq!(used.get(measure).expect("measures"), 90);
    }

    #[test]
    fn what_is_stale_is_measured() {
        let used = Used::default();
        assert_eq!(used.get(|| Ok(5)).expect("measures"), 5);
        assert_eq!(used.get(|| Ok(6)).expect("counts"), 5);
        used.is_stale();
        assert!(used.get(|| Err(io::ErrorKind::NotConnected.into())).is_err());
        assert_eq!(used.get(|| Ok(6)).expect("measures"), 6);
    }
}
