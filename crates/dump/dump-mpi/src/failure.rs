//! Errors, as a status and as a message.

// The functions have names that C can call.
#![allow(unsafe_code)]

use std::ffi::c_char;

use terrace_dump::Error;

/// The result of a call. All ranks get the same status, or `TERRACE_DUMP_STATUS_ELSEWHERE` if only other ranks failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpStatus {
    /// The call succeeded.
    Ok = 0,
    /// There is no such dump.
    NotFound = 1,
    /// An argument is invalid, or ranks, regions and stores do not match.
    Invalid = 2,
    /// Too many stores are lost; the message names the bytes and ranks.
    Lost = 3,
    /// Another rank failed; the message says which one, and why.
    Elsewhere = 4,
    /// The store or the transport failed.
    Failed = 5,
}

/// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no
/// call has failed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_last_error() -> *const c_char {
    terrace_foreign::last_error()
}

/// Runs a call, and keeps its error message.
pub(crate) fn guard(call: impl FnOnce() -> terrace_dump::Result<()>) -> DumpStatus {
    let bug = |bug: &str| Error::Refused(format!("{bug}; this is a bug of Terrace"));
    match terrace_foreign::keep_error(call, bug) {
        Ok(()) => DumpStatus::Ok,
        Err(Error::NotFound { .. }) => DumpStatus::NotFound,
        Err(Error::Refused(_) | Error::Differ(_)) => DumpStatus::Invalid,
        Err(Error::Lost(_)) => DumpStatus::Lost,
        Err(Error::Elsewhere { .. }) => DumpStatus::Elsewhere,
        Err(_) => DumpStatus::Failed,
    }
}
