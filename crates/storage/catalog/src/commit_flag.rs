//! Lets processes watch for the end of another's commit. LMDB's lock puts a process that finds it taken to sleep, and waking it
//! takes longer than a commit. So a process first spins for a moment.
//!
//! The words are hints. LMDB's lock alone excludes writers, so a wrong word costs time and nothing else.

use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use terrace_system::clock::monotonic_nanos;
use terrace_system::words::Words;

use super::group::MAX_SPIN_TIME;

/// Two words in shared memory: whether a process commits, and until when a process spins. A process that dies leaves them as
/// they are. That does no harm: the next one that commits clears the first, and the second is a time that passes.
pub(super) struct CommitFlag(Words<2>);

/// Keeps the flag set until it is dropped.
pub(super) struct SetFlag<'a>(&'a CommitFlag);

impl CommitFlag {
    /// Opens the words that all processes share through this file.
    pub fn open(path: &Path) -> CommitFlag {
        CommitFlag(Words::open(path))
    }

    /// Returns whether a process commits.
    pub fn is_set(&self) -> bool {
        let [flag, _] = self.0.all();
        // Pairs with the release when a commit ends, though nothing relies on it: LMDB's lock orders the data.
        flag.load(Acquire) != 0
    }

    /// Spins until no process commits. Returns early if sleeping on LMDB's lock is better.
    pub fn spin_while_set(&self) {
        let [_, watched] = self.0.all();
        let (begun, before) = (monotonic_nanos(), watched.load(Relaxed));
        let end = begun + MAX_SPIN_TIME.as_nanos() as u64;
        // Only one process spins: a second would keep the first, or the one that commits, from a core. Relaxed: the word
        // guards no data.
        let is_watched = (begun..end).contains(&before);
        if !self.is_set() || is_watched || watched.compare_exchange(before, end, Relaxed, Relaxed).is_err() {
            return;
        }
        while self.is_set() && monotonic_nanos() < end {
            (0..16).for_each(|_| std::hint::spin_loop());
        }
        watched.store(0, Relaxed);
    }

    /// Notes that this process commits, until the result is dropped.
    pub fn set(&self) -> SetFlag<'_> {
        let [flag, _] = self.0.all();
        // Relaxed: a process that sees it late goes to sleep on LMDB's lock, as it would without the word.
        flag.store(1, Relaxed);
        SetFlag(self)
    }
}

impl Drop for SetFlag<'_> {
    fn drop(&mut self) {
        let [flag, _] = self.0.0.all();
        // Release: the commit is over for the process that sees this.
        flag.store(0, Release);
    }
}
