//! Errors, as a number and in words.

// A name that C knows.
#![allow(unsafe_code)]

use std::ffi::c_char;

use terrace_dump::Error;

use crate::words;

/// The result of a call. All ranks get the same, or `TERRACE_DUMP_STATUS_ELSEWHERE` where only others failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpStatus {
    /// All went well.
    Ok = 0,
    /// There is no such dump.
    NotFound = 1,
    /// An argument cannot be used, or ranks, regions and stores do not fit together.
    Invalid = 2,
    /// Too many stores are lost; the message names the bytes and ranks.
    Lost = 3,
    /// Another rank failed; the words say which, and why.
    Elsewhere = 4,
    /// The store or the transport failed.
    Failed = 5,
}

/// Why the last call of this thread that failed did so: a sentence, valid until the thread's next call that fails. Empty
/// where none has.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_last_error() -> *const c_char {
    words::last()
}

/// Runs a call, and keeps what went wrong.
pub(crate) fn guard(call: impl FnOnce() -> terrace_dump::Result<()>) -> DumpStatus {
    let bug = |bug: &str| Error::Refused(format!("{bug}; this is a bug of Terrace"));
    match words::kept(call, bug) {
        Ok(()) => DumpStatus::Ok,
        Err(Error::NotFound { .. }) => DumpStatus::NotFound,
        Err(Error::Refused(_)) => DumpStatus::Invalid,
        Err(Error::Lost(_)) => DumpStatus::Lost,
        Err(Error::Elsewhere { .. }) => DumpStatus::Elsewhere,
        Err(_) => DumpStatus::Failed,
    }
}
