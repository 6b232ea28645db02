//! Failures, as a status and as a message.

use std::ffi::c_char;

use terrace_foreign::BadArgument;
use terrace_plan::plan::NoRoom;
use terrace_plan::snapshot::SnapshotError;

/// The result of a call. The numbers are those of `terrace_status` in terrace.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrainStatus {
    /// The call succeeded.
    Ok = 0,
    /// An argument is invalid: a null pointer, a handle that is not open, an unknown word, or a number that makes no sense.
    Invalid = 2,
    /// No target that the request allows has room for the bytes.
    NoSpace = 4,
    /// The bytes are not what `terrace_brain_encode` or `terrace_brain_save` made.
    Damaged = 5,
    /// The caller's buffer or array is too short. The call has said how long it must be.
    TooShort = 7,
    /// The library failed.
    Failed = 8,
}

/// The reasons why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An unusable argument.
    #[error("{0}")]
    Invalid(String),
    /// Tiers that cannot be planned for.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// No target has room.
    #[error("{0}")]
    NoSpace(NoRoom),
    /// Damaged bytes.
    #[error("{0}")]
    Damaged(String),
    /// The caller's buffer or array is too short.
    #[error("there is room for {have} {what}, and {need} are needed")]
    TooShort {
        /// The items that have no room.
        what: &'static str,
        /// Their number.
        need: usize,
        /// The number that has room.
        have: usize,
    },
    /// A bug: the call panicked, or a codec failed.
    #[error("{0}; this is a bug of Terrace")]
    Internal(String),
}

impl From<BadArgument> for Failure {
    fn from(bad: BadArgument) -> Failure {
        Failure::Invalid(bad.0)
    }
}

impl Failure {
    fn status(&self) -> BrainStatus {
        match self {
            Failure::Invalid(_) | Failure::Snapshot(_) => BrainStatus::Invalid,
            Failure::NoSpace(_) => BrainStatus::NoSpace,
            Failure::Damaged(_) => BrainStatus::Damaged,
            Failure::TooShort { .. } => BrainStatus::TooShort,
            Failure::Internal(_) => BrainStatus::Failed,
        }
    }
}

/// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no call has failed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_last_error() -> *const c_char {
    terrace_foreign::last_error()
}

/// Runs a call and records its failure for the thread.
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> BrainStatus {
    match terrace_foreign::keep_error(call, |bug| Failure::Internal(bug.into())) {
        Ok(()) => BrainStatus::Ok,
        Err(failure) => failure.status(),
    }
}
