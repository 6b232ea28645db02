//! The steps in progress, for the thread that ends the command if one of them hangs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Keeps the steps in progress: each may wait for a file system or a service that does not answer.
pub struct Steps {
    since: Instant,
    /// The milliseconds from `since` until something moved.
    moved: AtomicU64,
    open: Mutex<OpenSteps>,
}

#[derive(Default)]
struct OpenSteps {
    next: u64,
    /// In the order in which they began.
    by_number: BTreeMap<u64, (Instant, String)>,
}

/// A step, which ends when this is dropped.
pub struct Step<'a> {
    steps: &'a Steps,
    number: u64,
}

impl Steps {
    pub fn new() -> Steps {
        Steps { since: Instant::now(), moved: AtomicU64::new(0), open: Mutex::default() }
    }

    /// Begins a step, with words such as `writing a`.
    pub fn begin(&self, words: String) -> Step<'_> {
        self.note_progress();
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.by_number.insert(number, (Instant::now(), words));
        Step { steps: self, number }
    }

    /// Notes that something was read or written.
    pub fn note_progress(&self) {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        // Relaxed: no other data depends on it.
        self.moved.store(now, Ordering::Relaxed);
    }

    /// Returns for how long nothing has moved.
    pub fn idle_time(&self) -> Duration {
        self.since.elapsed().saturating_sub(Duration::from_millis(self.moved.load(Ordering::Relaxed)))
    }

    /// Says which step has taken longest, and for how long. None if none is in progress.
    pub fn describe_oldest(&self) -> Option<String> {
        let open = self.open();
        let (began, words) = open.by_number.values().next()?;
        Some(format!("{words} has not ended for {} s", began.elapsed().as_secs()))
    }

    fn open(&self) -> MutexGuard<'_, OpenSteps> {
        // Each change is one insertion or removal, so a panicked thread leaves it whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.steps.note_progress();
        self.steps.open().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_step_in_progress_is_told() {
        let steps = Steps::new();
        assert_eq!(steps.describe_oldest(), None);
        let first = steps.begin("writing a".into());
        let _second = steps.begin("writing b".into());
        assert_eq!(steps.describe_oldest().unwrap(), "writing a has not ended for 0 s");
        drop(first);
        assert_eq!(steps.describe_oldest().unwrap(), "writing b has not ended for 0 s");
        assert!(steps.idle_time() < Duration::from_secs(60));
    }
}
