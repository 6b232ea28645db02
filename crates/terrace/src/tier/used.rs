//! How much a target holds: counted by all processes as they write, and measured now and then.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use crate::shared::{Words, now};

/// How long what was measured is trusted, in nanoseconds; what is written is added to it meanwhile.
const FRESH: u64 = 1_000_000_000;

/// Bytes that a target holds, and when they were measured last, by the monotonic clock.
#[derive(Default)]
pub struct Used(Words<2>);

impl Used {
    /// As all processes count by this file.
    pub fn open(path: &Path) -> Used {
        let used = Used(Words::open(path));
        // What it says may be of an earlier boot.
        used.is_stale();
        used
    }

    /// As counted, about.
    pub fn counted(&self) -> u64 {
        let [bytes, _] = self.0.all();
        bytes.load(Relaxed)
    }

    /// As counted; measured anew where that was long ago.
    pub fn get(&self, measure: impl FnOnce() -> io::Result<u64>) -> io::Result<u64> {
        let [bytes, measured] = self.0.all();
        let (now, at) = (now(), measured.load(Relaxed));
        let fresh = at != 0 && now.checked_sub(at).is_some_and(|age| age <= FRESH);
        if !fresh && measured.compare_exchange(at, now, Relaxed, Relaxed).is_ok() {
            let found = measure().inspect_err(|_| self.is_stale())?;
            bytes.store(found, Relaxed);
        }
        Ok(self.counted())
    }

    /// Adds bytes that are about to be written; says where they would be too many.
    pub fn add(&self, more: u64, capacity: u64, measure: impl FnOnce() -> io::Result<u64>) -> io::Result<()> {
        self.get(measure)?;
        let [bytes, _] = self.0.all();
        if bytes.fetch_add(more, Relaxed).saturating_add(more) > capacity {
            self.take(more);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Takes off bytes that were not written, or are no longer there.
    pub fn take(&self, fewer: u64) {
        let [bytes, _] = self.0.all();
        let _ = bytes.fetch_update(Relaxed, Relaxed, |bytes| Some(bytes.saturating_sub(fewer)));
    }

    /// It is to be measured before it is next looked at.
    pub fn is_stale(&self) {
        let [_, measured] = self.0.all();
        measured.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_together_take_no_more_than_there_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let of_processes: Vec<Used> = (0..4).map(|_| Used::open(&dir.path().join("used"))).collect();
        let taken: usize = std::thread::scope(|scope| {
            let take = |used: &Used| (0..1000).filter(|_| used.add(10, 20_000, || Ok(1_000)).is_ok()).count();
            let threads: Vec<_> = of_processes.iter().map(|used| scope.spawn(move || take(used))).collect();
            threads.into_iter().map(|thread| thread.join().expect("adds")).sum()
        });
        assert_eq!(taken, 1_900);
        assert_eq!(of_processes[3].counted(), 20_000);
        of_processes[0].take(10);
        assert!(of_processes[1].add(11, 20_000, || Ok(0)).is_err());
        assert!(of_processes[1].add(10, 20_000, || Ok(0)).is_ok());
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
