//! Forks: the child gets all open files, and opens the store itself.

use std::ffi::c_int;

use crate::answer::guard;
use crate::errors::{error_number, set_error_number};
use crate::inside::is_inside;
use crate::note::Sharing;
use crate::{folder, libraries, note, numbers, opened, settings, table, unseen, written};

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
    let engines = numbers::lock();
    let child = run();
    drop(engines);
    if child == 0 {
        let number = error_number();
        unseen::note_fork();
        numbers::forget_changes();
        table.renew();
        spare.forget();
        written.forget();
        store.forget();
        set_error_number(number);
    }
    child
}
