//! Errors of the catalog and its log.

use std::path::PathBuf;

use heed::MdbError;
use terrace_system::reserve::FullDisk;

/// The result of an operation of the catalog.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every way in which an operation of the catalog or the log can fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A change was refused because the object is not in the expected state.
    #[error("{key:?} was not changed: {reason}")]
    Conflict {
        /// The object's key, printed lossily.
        key: String,
        /// Which expectation failed, and what to do.
        reason: String,
    },
    /// No object has this key.
    #[error("no object has the key {key:?}; `terrace ls` lists those that exist")]
    NotFound {
        /// The key that was asked for, printed lossily.
        key: String,
    },
    /// A file of the catalog or the log cannot be used.
    #[error("{path}: {reason}", path = path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The disk of the store's directory is full.
    #[error("no space: {0}")]
    NoSpace(String),
    /// LMDB failed.
    #[error("catalog: {0}")]
    Lmdb(String),
    /// A record of the log or the catalog does not decode.
    #[error("{what} is damaged: {reason}; `terrace rebuild` makes a new catalog from the log")]
    Damaged {
        /// Which record.
        what: String,
        /// The fault.
        reason: String,
    },
    /// The node of this machine, or the log that it shares with others, does not answer. Nothing was changed.
    #[error("{reason}")]
    SharedLog {
        /// The trouble, and what to do.
        reason: String,
    },
    /// Nobody knows whether a change was carried out.
    #[error("it is not known whether the change was carried out: {reason}; look whether it was before you repeat it")]
    UnknownOutcome {
        /// The trouble, and what to do.
        reason: String,
    },
    /// A change names bytes that were written before the node of their target began again, and may have lost power. Nothing was changed.
    #[error("the node that holds the written bytes has begun again, and may have lost them; write them again")]
    Stale,
    /// A record of a shared log does not follow from what was carried out. Nothing of it was.
    #[error("record {slot} of the shared log does not follow: {reason}")]
    OutOfOrder {
        /// The record's place in the log.
        slot: u64,
        /// The record that is missing, or comes twice.
        reason: String,
    },
    /// The log lacks commits that it held.
    #[error("the commit log is damaged or lost (nothing was changed): {0}")]
    LogDamaged(String),
    /// The system refused an operation on a file.
    #[error("{context}: {cause}")]
    Io {
        /// The operation, and its file.
        context: String,
        /// The system's error. The message of this error ends with it, so it is not its `source()`.
        cause: std::io::Error,
    },
}

impl Error {
    /// Wraps an I/O error with the operation and its file.
    pub fn io(context: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let context = context.into();
        move |cause| Error::Io { context, cause }
    }

    /// A copy of this error for another caller that waited for the same operation.
    pub(crate) fn share(&self) -> Error {
        match self {
            Error::NoSpace(reason) => Error::NoSpace(reason.clone()),
            Error::Io { context, cause } => Error::Io {
                context: context.clone(),
                cause: cause.raw_os_error().map_or_else(|| cause.kind().into(), std::io::Error::from_raw_os_error),
            },
            Error::SharedLog { reason } => Error::SharedLog { reason: reason.clone() },
            Error::UnknownOutcome { reason } => Error::UnknownOutcome { reason: reason.clone() },
            other => Error::Lmdb(other.to_string()),
        }
    }

    pub(crate) fn not_found(key: &[u8]) -> Error {
        Error::NotFound { key: terrace_format::key::show(key) }
    }
}

impl FullDisk for Error {
    fn io_error(&self) -> Option<&std::io::Error> {
        match self {
            Error::Io { cause, .. } => Some(cause),
            _ => None,
        }
    }

    fn no_space(reason: String) -> Error {
        Error::NoSpace(reason)
    }
}

impl From<heed::Error> for Error {
    fn from(error: heed::Error) -> Self {
        match error {
            // LMDB reports a short write on a full disk as EIO.
            heed::Error::Io(e) if [libc::EIO, libc::ENOSPC, libc::EDQUOT].map(Some).contains(&e.raw_os_error()) => {
                Error::io("writing the catalog (the disk of the store's directory is full or failing)")(e)
            }
            heed::Error::Mdb(
                MdbError::Invalid | MdbError::Corrupted | MdbError::PageNotFound | MdbError::VersionMismatch,
            ) => Error::Damaged { what: "the catalog".into(), reason: error.to_string() },
            heed::Error::Mdb(MdbError::Panic) => Error::Lmdb(
                "an earlier write to it failed, and it is being reopened; try again, and see whether the disk of the store's directory is full or failing".into(),
            ),
            heed::Error::Mdb(MdbError::ReadersFull) => Error::Lmdb(
                "too many processes and threads read the store at this moment: 4,096 can, or 512 while a process of an earlier version has it open; try again when some of them have ended".into(),
            ),
            other => Error::Lmdb(other.to_string()),
        }
    }
}
