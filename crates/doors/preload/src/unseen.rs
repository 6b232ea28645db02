//! Processes that the library has not seen being made.

use std::sync::atomic::{AtomicU32, Ordering};

use terrace_system::fork;

/// The forks up to this process that the library has prepared. Relaxed: it changes in a new process only, which has one thread.
static SEEN_FORKS: AtomicU32 = AtomicU32::new(0);

/// Notes that the library has prepared the fork that made this process.
pub fn note_fork() {
    SEEN_FORKS.store(fork::count(), Ordering::Relaxed);
}

/// Returns whether this process was made without the library: by `clone`, `_Fork` or the system call itself.
pub fn is_unseen() -> bool {
    fork::count() != SEEN_FORKS.load(Ordering::Relaxed)
}
