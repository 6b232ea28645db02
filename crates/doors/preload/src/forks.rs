//! Forks: the child gets all open files, and opens the store itself.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::answer::{complain, guard};
use crate::errors::{error_number, set_error_number};
use crate::inside::is_inside;
use crate::note::Sharing;
use crate::{folder, libraries, note, opened, settings, table, written};

/// The forks up to this process that went through [`fork`]. Relaxed: it changes in a new process only, which has one thread.
static SEEN_FORKS: AtomicU32 = AtomicU32::new(0);
/// Whether a process that was not seen has said so.
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Returns whether this process was made without the library, by `clone`, `_Fork` or the system call itself. Says so once.
pub fn is_unseen() -> bool {
    let is_unseen = terrace_system::fork::count() != SEEN_FORKS.load(Ordering::Relaxed);
    if is_unseen && !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        complain(
            "a process that was made by `clone` and not by `fork` cannot use the store, and sees errors; let it execute a program first",
        );
    }
    is_unseen
}

/// Forks by `run`, which returns 0 in the child. The child gets everything that was written, and all open files.
pub fn fork(run: impl FnOnce() -> c_int) -> c_int {
    if settings::prefix().is_empty() || is_inside() {
        return run();
    }
    // Bytes that cannot be written now stay buffered here; the file's next sync or close returns the error.
    let _ = guard(opened::flush);
    let _sharing = Sharing::begin();
    // All of this library's locks, in the order of their use: the child finds none of them held by a thread that it lacks.
    let _current = folder::lock();
    let mut store = opened::lock();
    let mut table = table::lock();
    let mut spare = note::lock();
    let mut written = written::lock();
    let _libraries = libraries::lock();
    let child = run();
    if child == 0 {
        let number = error_number();
        SEEN_FORKS.store(terrace_system::fork::count(), Ordering::Relaxed);
        table.renew();
        spare.forget();
        written.forget();
        store.forget();
        set_error_number(number);
    }
    child
}
