//! Failures, as a status and as a message.

use std::ffi::c_char;

use crate::words;

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The call succeeded.
    Ok = 0,
    /// No object has this key.
    NotFound = 1,
    /// An argument is invalid: a null pointer, an invalid key, an unknown word, or an offset or length that no object
    /// can have.
    Invalid = 2,
    /// The object is not in the state that the call needs, or another call has replaced it.
    Conflict = 3,
    /// No tier has room for the bytes.
    NoSpace = 4,
    /// All replicas of requested bytes are damaged or unreachable, or compressed bytes are damaged.
    Unreadable = 5,
    /// Replicas are still pending when the time limit is reached.
    Owed = 6,
    /// The caller's buffer is too short.
    TooShort = 7,
    /// The store, its configuration or the system failed.
    Failed = 8,
}

/// The reasons why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// An unusable argument.
    #[error("{0}")]
    Invalid(String),
    /// The caller's buffer is too short.
    #[error("the buffer has {have} bytes, and {need} are needed")]
    TooShort {
        /// Needed bytes.
        need: u64,
        /// Available bytes.
        have: usize,
    },
    /// Damaged compressed bytes.
    #[error("{0}; they are not what terrace_compress made")]
    Damaged(String),
    /// A bug: the call panicked.
    #[error("{0}; this is a bug of Terrace")]
    Internal(String),
}

impl Failure {
    fn status(&self) -> Status {
        use engine::Error;
        match self {
            Failure::Engine(error) => match error {
                Error::NotFound { .. } | Error::NoUpload { .. } => Status::NotFound,
                Error::BadPart { .. } | Error::BadKey { .. } | Error::KeyTooLong { .. } => Status::Invalid,
                Error::Reserved { .. } | Error::TooLarge { .. } => Status::Invalid,
                Error::Conflict { .. } | Error::Replaced { .. } => Status::Conflict,
                Error::NoSpace { .. } => Status::NoSpace,
                Error::Unreadable { .. } => Status::Unreadable,
                Error::StillOwed { .. } => Status::Owed,
                _ => Status::Failed,
            },
            Failure::Invalid(_) => Status::Invalid,
            Failure::TooShort { .. } => Status::TooShort,
            Failure::Damaged(_) => Status::Unreadable,
            Failure::Internal(_) => Status::Failed,
        }
    }
}

/// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no
/// call has failed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_last_error() -> *const c_char {
    words::last()
}

/// Runs a call and records its failure for the thread.
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> Status {
    match words::kept(call, |bug| Failure::Internal(bug.into())) {
        Ok(()) => Status::Ok,
        Err(failure) => failure.status(),
    }
}
