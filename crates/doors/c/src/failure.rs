//! Failures, as a status and as a message.

use std::ffi::c_char;

use engine::files::FileError;
use terrace_foreign::BadArgument;

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
    /// An error of a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// An error of a stream.
    #[error(transparent)]
    Stream(#[from] stream::Error),
    /// An error of a dataset.
    #[error(transparent)]
    Dataset(#[from] datasets::Error),
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

impl From<BadArgument> for Failure {
    fn from(bad: BadArgument) -> Failure {
        Failure::Invalid(bad.0)
    }
}

impl Failure {
    fn status(&self) -> Status {
        match self {
            Failure::Engine(error) => engine_status(error),
            Failure::File(error) => file_status(error),
            Failure::Stream(error) => stream_status(error),
            Failure::Dataset(error) => dataset_status(error),
            Failure::Invalid(_) => Status::Invalid,
            Failure::TooShort { .. } => Status::TooShort,
            Failure::Damaged(_) => Status::Unreadable,
            Failure::Internal(_) => Status::Failed,
        }
    }
}

fn engine_status(error: &engine::Error) -> Status {
    use engine::Error;
    match error {
        Error::NotFound { .. } | Error::NoUpload { .. } => Status::NotFound,
        Error::BadPart { .. } | Error::BadKey { .. } | Error::KeyTooLong { .. } => Status::Invalid,
        Error::Reserved { .. } | Error::TooLarge { .. } | Error::ReadOnlyOrigin { .. } => Status::Invalid,
        Error::Conflict { .. } | Error::Replaced { .. } | Error::ChangedAtOrigin { .. } => Status::Conflict,
        Error::NoSpace { .. } => Status::NoSpace,
        Error::Unreadable { .. } => Status::Unreadable,
        Error::StillOwed { .. } => Status::Owed,
        _ => Status::Failed,
    }
}

fn file_status(error: &FileError) -> Status {
    match error {
        FileError::Engine(error) => engine_status(error),
        FileError::NotFound(_) | FileError::NoAttribute { .. } => Status::NotFound,
        FileError::Exists(_) | FileError::NotEmpty(_) | FileError::Stale(_) => Status::Conflict,
        _ => Status::Invalid,
    }
}

fn stream_status(error: &stream::Error) -> Status {
    use stream::Error;
    match error {
        Error::Engine(error) => engine_status(error),
        Error::Shared(error) => stream_status(error),
        Error::BadName(_) | Error::BadDestination { .. } | Error::TooLong { .. } => Status::Invalid,
        Error::BadProducer(_) | Error::TooFar { .. } => Status::Invalid,
        _ => Status::Failed,
    }
}

fn dataset_status(error: &datasets::Error) -> Status {
    use datasets::Error;
    match error {
        Error::Store(error) => engine_status(error),
        Error::NotFound(_) | Error::NoView { .. } => Status::NotFound,
        Error::BadName { .. } | Error::Declaration(_) | Error::ReadOnly(_) | Error::Beyond { .. } => Status::Invalid,
        Error::Exists(_) | Error::Busy(_) => Status::Conflict,
        Error::Lost { .. } => Status::Unreadable,
        _ => Status::Failed,
    }
}

/// Returns the message of this thread's last failed call, which is valid until the thread's next failure. Empty if no
/// call has failed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_last_error() -> *const c_char {
    terrace_foreign::last_error()
}

/// Runs a call and records its failure for the thread.
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> Status {
    match terrace_foreign::keep_error(call, |bug| Failure::Internal(bug.into())) {
        Ok(()) => Status::Ok,
        Err(failure) => failure.status(),
    }
}
