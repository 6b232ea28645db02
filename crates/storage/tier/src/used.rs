//! Counts the bytes of a target: all processes change the count as they write and free, and measure it from time to time.

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use terrace_system::clock::monotonic_nanos;
use terrace_system::words::Words;

/// No write is refused for lack of space by a measurement older than this.
const MAX_REFUSING_AGE: Duration = Duration::from_secs(1);

/// A measurement is repeated if bytes were given back meanwhile, up to this number of them.
const MAX_MEASUREMENTS: u32 = 3;

/// The bytes of a target.
#[derive(Default)]
pub struct Used {
    /// The number of bytes, the time of the last measurement by the monotonic clock, and the number of bytes that were ever given back.
    /// All processes change the words without a lock, by atomic read-modify-write operations, so no addition is lost. [`Used::get`] relies on
    /// their order: hence acquire and release.
    shared: Words<3>,
    /// The bytes that this process is writing at the moment: a measurement may not find them yet.
    writing: AtomicU64,
}

/// The words when a measurement begins.
struct Marks {
    given_back: u64,
    bytes: u64,
}

/// Reserved space for bytes that are being written.
#[must_use = "the bytes count as written when it is dropped"]
pub struct Taken<'a>(&'a Used, u64);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(self.1, AcqRel);
    }
}

impl Used {
    /// Opens the count that all processes share through this file.
    pub fn open(path: &Path) -> Used {
        let used = Used { shared: Words::open(path), ..Used::default() };
        // The count may be from an earlier boot.
        used.make_stale();
        used
    }

    /// The current count, which is approximate.
    pub fn counted(&self) -> u64 {
        let [bytes, ..] = self.shared.all();
        bytes.load(Acquire)
    }

    /// The current count, after a new measurement if the last one is older than this.
    pub fn get(&self, max_age: Duration, measure: impl Fn() -> io::Result<u64>) -> io::Result<u64> {
        let [bytes, measured, given_back] = self.shared.all();
        let (now, at) = (monotonic_nanos(), measured.load(Acquire));
        // Measured at a later time: in an earlier boot.
        let age = now.checked_sub(at).map(Duration::from_nanos);
        if at != 0 && age.is_some_and(|age| age <= max_age) {
            return Ok(self.counted());
        }
        // Read before the time is set. Another process adds to the bytes only after it has seen a new time or has failed to set
        // one. So all bytes that are added during this measurement are in the difference, and stay counted.
        let mut before = self.marks();
        if measured.compare_exchange(at, now, AcqRel, Acquire).is_ok() {
            for attempt in 1.. {
                let writing = self.writing.load(Acquire);
                let found = measure().inspect_err(|_| self.make_stale())?;
                // The measurement may have found what was given back meanwhile, or not. After the last attempt it counts as not found:
                // the target then seems to have less room for a while, and never takes more than its capacity.
                let is_certain = given_back.load(Acquire) == before.given_back;
                if is_certain || attempt == MAX_MEASUREMENTS {
                    let given = || given_back.load(Acquire).wrapping_sub(before.given_back);
                    let with_changes =
                        |bytes: u64| Some((found + writing + bytes + given()).saturating_sub(before.bytes));
                    let _ = bytes.fetch_update(AcqRel, Acquire, with_changes); // the closure never refuses
                    break;
                }
                before = self.marks();
            }
        }
        Ok(self.counted())
    }

    fn marks(&self) -> Marks {
        let [bytes, _, given_back] = self.shared.all();
        Marks { given_back: given_back.load(Acquire), bytes: bytes.load(Acquire) }
    }

    /// Reserves space for bytes that are about to be written. Measures only if nobody has, or before it refuses.
    ///
    /// # Errors
    /// `StorageFull` if the target would have more than `capacity` bytes. An error of `measure`.
    pub fn take(&self, more: u64, capacity: u64, measure: impl Fn() -> io::Result<u64>) -> io::Result<Taken<'_>> {
        self.get(Duration::MAX, &measure)?;
        if let Some(taken) = self.take_counted(more, capacity) {
            return Ok(taken);
        }
        self.get(MAX_REFUSING_AGE, &measure)?;
        self.take_counted(more, capacity).ok_or_else(|| io::ErrorKind::StorageFull.into())
    }

    fn take_counted(&self, more: u64, capacity: u64) -> Option<Taken<'_>> {
        self.writing.fetch_add(more, AcqRel);
        let taken = Taken(self, more);
        let [bytes, ..] = self.shared.all();
        if bytes.fetch_add(more, AcqRel).saturating_add(more) > capacity {
            // Not given back: they were never on the target, so that no measurement misses them.
            self.subtract(more);
            return None;
        }
        Some(taken)
    }

    /// Notes that bytes were freed.
    pub fn give_back(&self, fewer: u64) {
        let [_, _, given_back] = self.shared.all();
        given_back.fetch_add(fewer, AcqRel);
        self.subtract(fewer);
    }

    fn subtract(&self, fewer: u64) {
        let [bytes, ..] = self.shared.all();
        let _ = bytes.fetch_update(AcqRel, Acquire, |bytes| Some(bytes.saturating_sub(fewer))); // the closure never refuses
    }

    /// Makes the next [`Used::get`] or [`Used::take`] measure.
    pub fn make_stale(&self) {
        let [_, measured, _] = self.shared.all();
        measured.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
        assert_eq!(measuring.get(Duration::ZERO, measure).expect("measures"), 60);
    }

    /// It was subtracted twice, and the target then took more bytes than its capacity.
    #[test]
    fn what_is_given_back_while_one_measures_is_measured_again() {
        for found_first in [60, 40] {
            let (used, measurements) = (Used::default(), Cell::new(0));
            drop(used.take(60, 100, || Ok(0)).expect("room"));
            let measure = || {
                measurements.set(measurements.get() + 1);
                if measurements.get() > 1 {
                    return Ok(40);
                }
                used.give_back(20);
                Ok(found_first)
            };
            assert_eq!(used.get(Duration::ZERO, measure).expect("measures"), 40, "{found_first}");
            used.give_back(10);
            assert_eq!(used.counted(), 30);
        }
    }

    #[test]
    fn what_is_given_back_all_the_time_counts_until_a_measurement_is_certain() {
        let used = Used::default();
        drop(used.take(60, 100, || Ok(0)).expect("room"));
        let found = Cell::new(60);
        let measure = || {
            used.give_back(10);
            found.set(found.get() - 10);
            Ok(found.get())
        };
        assert_eq!(used.get(Duration::ZERO, measure).expect("measures"), 30);
        assert_eq!(used.get(Duration::ZERO, || Ok(30)).expect("measures"), 30);
    }

    #[test]
    fn what_is_being_written_is_counted_though_it_is_not_found_yet() {
        let used = Used::default();
        let room = used.take(10, 100, || Ok(50)).expect("room");
        used.make_stale();
        assert_eq!(used.get(Duration::MAX, || Ok(50)).expect("measures"), 60);
        drop(room);
        used.make_stale();
        // One writes while another measures.
        let measure = || {
            drop(used.take(30, 100, || Ok(0)).expect("room"));
            Ok(60)
        };
        assert_eq!(used.get(Duration::MAX, measure).expect("measures"), 90);
    }

    #[test]
    fn what_is_stale_is_measured() {
        let used = Used::default();
        assert_eq!(used.get(Duration::MAX, || Ok(5)).expect("measures"), 5);
        assert_eq!(used.get(Duration::MAX, || Ok(6)).expect("counts"), 5);
        used.make_stale();
        assert!(used.get(Duration::MAX, || Err(io::ErrorKind::NotConnected.into())).is_err());
        assert_eq!(used.get(Duration::MAX, || Ok(6)).expect("measures"), 6);
    }

    /// Ages the last measurement by an hour.
    fn age(used: &Used) {
        let [_, measured, _] = used.shared.all();
        let hour = Duration::from_secs(3600).as_nanos() as u64;
        measured.store(measured.load(Acquire).saturating_sub(hour).max(1), Release);
    }

    #[test]
    fn writes_measure_only_before_they_are_refused() {
        let used = Used::default();
        let measured = AtomicU64::new(0);
        let take = |more, found| {
            let measure = || {
                measured.fetch_add(1, AcqRel);
                Ok(found)
            };
            used.take(more, 100, measure).map(drop).is_ok()
        };
        for _ in 0..9 {
            assert!(take(10, 0));
            age(&used);
        }
        assert_eq!((measured.load(Acquire), used.counted()), (1, 90));
        used.give_back(30);
        assert!(take(40, 0));
        assert_eq!((measured.load(Acquire), used.counted()), (1, 100));
        // The count may be too high.
        assert!(take(10, 50));
        assert_eq!((measured.load(Acquire), used.counted()), (2, 60));
        // If it is not, it was measured a moment ago.
        age(&used);
        assert!(!take(50, 95));
        assert_eq!((measured.load(Acquire), used.counted()), (3, 95));
    }
}
