//! Wraps calls from C: catches panics, and keeps the last error message of each thread.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Returns the message of this thread's last failed call, valid until the next failure; empty if none has failed.
pub fn last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}

/// Runs a call and keeps its error message. Converts a panic into the error that `bug` returns.
pub fn keep_error<E: Display>(call: impl FnOnce() -> Result<(), E>, bug: impl FnOnce(&str) -> E) -> Result<(), E> {
    let done = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(bug("a call panicked")));
    done.inspect_err(|error| {
        let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
        LAST_ERROR.with_borrow_mut(|last| *last = text);
    })
}
