//! Calls that come from C: no panic goes out, and what went wrong last is kept in words, for each thread. The library for dumps
//! has this file, too.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What the last call of this thread that failed has kept, until the next one does; empty where none has.
pub fn last() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Runs a call, and keeps what went wrong; a panic is what `bug` says.
pub fn kept<E: Display>(call: impl FnOnce() -> Result<(), E>, bug: impl FnOnce(&str) -> E) -> Result<(), E> {
    let done = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(bug("a call panicked")));
    done.inspect_err(|error| {
        let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
        LAST.with_borrow_mut(|last| *last = text);
    })
}
