//! Turns results into the return values of C.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace_prefix::calls;

use crate::errors::{CReturn, CallResult, ErrorNumber, error_number, refuse, set_error_number};
use crate::inside::Inside;
use crate::unseen::is_unseen;

/// Whether a process that the library has not seen being made has said so. Relaxed: the swap alone lets one caller through.
static IS_UNSEEN_TOLD: AtomicBool = AtomicBool::new(false);

/// Runs the engine for a call. The error number stays as it was if the call succeeds. Nothing runs in a process that the library has not seen
/// being made: it has copies of buffered bytes, and of the places of its parent's next bytes.
pub fn guard<T>(run: impl FnOnce() -> CallResult<T>) -> CallResult<T> {
    let _inside = Inside::enter();
    if is_unseen() {
        if !IS_UNSEEN_TOLD.swap(true, Ordering::Relaxed) {
            complain(
                "a process that was made by `clone` and not by `fork` cannot use the store, and sees errors; let it execute a program first",
            );
        }
        return refuse(libc::EIO);
    }
    let before = error_number();
    let done = calls::run(run).unwrap_or(refuse(libc::EIO));
    set_error_number(before);
    done
}

/// Returns a result to C.
pub fn give<T: CReturn>(result: CallResult<T>) -> T {
    result.unwrap_or_else(|ErrorNumber(number)| {
        set_error_number(number);
        T::FAILURE_VALUE
    })
}

/// Runs the engine for a call, and returns its result to C.
pub fn answer<T: CReturn>(run: impl FnOnce() -> CallResult<T>) -> T {
    give(guard(run))
}

/// Writes a line to standard error, for errors that no return value carries.
pub fn complain(line: &str) {
    let line = format!("terrace: {line}\n");
    // SAFETY: the bytes are alive. If standard error is closed, nobody reads the line anyway.
    unsafe { crate::real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}
