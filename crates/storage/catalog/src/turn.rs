//! Whose turn it is to commit, among processes. LMDB's own lock puts whoever finds it taken to sleep, and to wake it takes longer
//! than a commit; so one watches for the end of the commit first.

use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use terrace_system::clock::monotonic_nanos;
use terrace_system::words::Words;

use super::group::MAX_SPIN_TIME;

/// Whether somebody commits, and until when somebody watches for the end of it. What the dead leave here does no harm: the
/// next who commits says when it is done.
pub(super) struct Turn(Words<2>);

/// Somebody commits.
pub(super) struct Taken<'a>(&'a Turn);

impl Turn {
    /// As all processes see it by this file.
    pub fn open(path: &Path) -> Turn {
        Turn(Words::open(path))
    }

    /// Whether somebody commits.
    pub fn is_taken(&self) -> bool {
        let [taken, _] = self.0.all();
        taken.load(Acquire) != 0
    }

    /// Returns when nobody commits, or when sleep is better.
    pub fn watch(&self) {
        let [_, watched] = self.0.all();
        let (begun, before) = (monotonic_nanos(), watched.load(Relaxed));
        let end = begun + MAX_SPIN_TIME.as_nanos() as u64;
        // A second one would only keep the first, or who commits, from a core.
        let is_watched = (begun..end).contains(&before);
        if !self.is_taken() || is_watched || watched.compare_exchange(before, end, Relaxed, Relaxed).is_err() {
            return;
        }
        while self.is_taken() && monotonic_nanos() < end {
            (0..16).for_each(|_| std::hint::spin_loop());
        }
        watched.store(0, Relaxed);
    }

    /// This process commits, until what is returned is dropped.
    pub fn take(&self) -> Taken<'_> {
        let [taken, _] = self.0.all();
        taken.store(1, Relaxed);
        Taken(self)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let [taken, _] = self.0.0.all();
        taken.store(0, Release);
    }
}
