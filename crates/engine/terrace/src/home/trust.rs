//! A door may let others cache its answers, as a mount lets the kernel cache attributes and names, while no other process has
//! the store open, and for up to 100 ms after one opens it.
//!
//! The granting process first stores the end of the trust in a word that all processes see, and then checks whether it is alone.
//! An opener first makes itself known, and then reads the word. It delays its first change until that time. So at least one of
//! the two sees the other.

use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use terrace_system::clock::monotonic_nanos;
use terrace_system::words::Words;

/// The longest trust: enough for a walk along a path or for a listing, and short enough for an opener to wait for its end.
const LONGEST_TRUST_NS: u64 = 100_000_000;
/// If less than this is left of the trust, a grant extends it.
const RENEWAL_LIMIT_NS: u64 = 75_000_000;
/// The time that is subtracted from granted trust, because an answer takes some time to arrive.
const ANSWER_MARGIN_NS: u64 = 25_000_000;

/// The time until which answers may be trusted, in nanoseconds of the monotonic clock.
pub struct Trust(Words<1>);

/// A grant: answers that are looked up before its end may be cached until then.
#[derive(Clone, Copy, Debug)]
pub struct Trusted {
    until: u64,
}

impl Trusted {
    /// Returns the remaining time. Call it when the answer is sent.
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.until.saturating_sub(monotonic_nanos() + ANSWER_MARGIN_NS))
    }
}

impl Trust {
    /// Opens the shared word of the store in `dir`.
    pub fn open(dir: &Path) -> Trust {
        Trust(Words::open(&dir.join("trusted")))
    }

    /// Grants trust in answers that are looked up from now on. `is_alone` returns whether no other process has the store open.
    pub fn grant(&self, is_alone: impl Fn() -> bool) -> Trusted {
        const NONE: Trusted = Trusted { until: 0 };
        if !self.0.is_shared() || !is_alone() {
            return NONE;
        }
        let [word] = self.0.all();
        let now = monotonic_nanos();
        // Relaxed: this process stored the word, or waited for it when it opened the store.
        let until = word.load(Ordering::Relaxed);
        if (RENEWAL_LIMIT_NS..=LONGEST_TRUST_NS).contains(&until.saturating_sub(now)) {
            return Trusted { until };
        }
        let until = now + LONGEST_TRUST_NS;
        // This thread stores, fences, checks. An opener makes itself known, fences, loads (`ends_at`). Both fences are sequentially
        // consistent. So an opener that missed this word had made itself known before, and the check sees it.
        word.store(until, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if is_alone() { Trusted { until } } else { NONE }
    }

    /// The time at which all trust ends. Called by a process that has just made itself known.
    pub fn ends_at(&self) -> u64 {
        // Pairs with the fence in `grant`.
        fence(Ordering::SeqCst);
        let [until] = self.0.all();
        let until = until.load(Ordering::SeqCst);
        // An earlier boot left a later time.
        if until > monotonic_nanos() + LONGEST_TRUST_NS { 0 } else { until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_granted_to_who_is_alone_and_waited_for_by_who_comes() {
        let dir = tempfile::tempdir().expect("a folder");
        let (mount, other) = (Trust::open(dir.path()), Trust::open(dir.path()));
        assert_eq!(other.ends_at(), 0);
        assert_eq!(mount.grant(|| false).left(), Duration::ZERO);
        assert_eq!(other.ends_at(), 0, "nothing was granted");
        for _ in 0..3 {
            let granted = mount.grant(|| true);
            assert!(granted.until > 0 && granted.until <= monotonic_nanos() + LONGEST_TRUST_NS);
            assert!(other.ends_at() >= granted.until && granted.left().as_nanos() as u64 <= RENEWAL_LIMIT_NS);
        }
        // A word that was written before the clock began again.
        other.0.all()[0].store(monotonic_nanos() + 3_600_000_000_000, Ordering::SeqCst);
        assert_eq!(mount.ends_at(), 0);
        assert!(mount.grant(|| true).until <= monotonic_nanos() + LONGEST_TRUST_NS);
    }
}
