//! What went wrong, as a number and in words.

// A name that C knows.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use terrace_dump::Error;

/// What a call came to. All ranks get the same, or `TERRACE_DUMP_STATUS_ELSEWHERE` where only others failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpStatus {
    /// All went well.
    Ok = 0,
    /// There is no such dump.
    NotFound = 1,
    /// An argument cannot be used, or ranks, regions and stores do not fit together.
    Invalid = 2,
    /// Too many stores are lost; the words say which bytes of which ranks.
    Lost = 3,
    /// Another rank failed; the words say which, and why.
    Elsewhere = 4,
    /// The store or the transport failed.
    Failed = 5,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why the last call of this thread that failed did so: a sentence, valid until the thread's next call that fails. Empty
/// where none has.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Runs a call, and keeps what went wrong.
pub(crate) fn guard(call: impl FnOnce() -> terrace_dump::Result<()>) -> DumpStatus {
    let panicked = |_| Err(Error::Refused("a call panicked; this is a bug of Terrace".into()));
    match catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(panicked) {
        Ok(()) => DumpStatus::Ok,
        Err(error) => {
            let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
            LAST.with_borrow_mut(|last| *last = text);
            match error {
                Error::NotFound { .. } => DumpStatus::NotFound,
                Error::Refused(_) => DumpStatus::Invalid,
                Error::Lost(_) => DumpStatus::Lost,
                Error::Elsewhere { .. } => DumpStatus::Elsewhere,
                _ => DumpStatus::Failed,
            }
        }
    }
}
