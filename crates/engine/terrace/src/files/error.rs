//! The errors of files, each with its POSIX error number.

use terrace_format::key;

use crate::Error;

/// The result of an operation on files.
pub type FileResult<T> = std::result::Result<T, FileError>;

/// Every way in which an operation on files can fail. Paths are printed lossily.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Nothing has this path (`ENOENT`).
    #[error("{0:?}: no such file or directory")]
    NotFound(String),
    /// Something has this path already (`EEXIST`).
    #[error("{0:?} exists")]
    Exists(String),
    /// A directory is needed here (`ENOTDIR`).
    #[error("{0:?} is not a directory")]
    NotDirectory(String),
    /// The operation is not possible on a directory (`EISDIR`).
    #[error("{0:?} is a directory")]
    IsDirectory(String),
    /// A directory that is not empty is neither removed nor replaced (`ENOTEMPTY`).
    #[error("{0:?} is not empty")]
    NotEmpty(String),
    /// A component has more than 255 bytes, or the path more than 1,920 (`ENAMETOOLONG`).
    #[error("{0:?}: the name is too long; a component has at most 255 bytes, a path at most 1,920")]
    NameTooLong(String),
    /// The request is not valid (`EINVAL`).
    #[error("{path:?}: {reason}")]
    Invalid {
        /// The path.
        path: String,
        /// The defect.
        reason: &'static str,
    },
    /// The name is reserved for the store (`EPERM`).
    #[error("{0:?}: names under .terrace are the store's own")]
    Reserved(String),
    /// A path leads through too many symbolic links, or in a circle (`ELOOP`).
    #[error("{0:?}: the path leads through too many symbolic links")]
    TooManyLinks(String),
    /// An offset or length is beyond the limit for files (`EFBIG`).
    #[error("{0:?}: a file has at most 2^63 - 1 bytes")]
    TooLarge(String),
    /// The open file was removed, replaced or renamed by another process (`ESTALE`).
    #[error("{0:?} was removed, replaced or renamed by another process; open it again")]
    Stale(String),
    /// The file has no attribute of this name (`ENODATA`).
    #[error("{path:?} has no attribute {name:?}")]
    NoAttribute {
        /// The path.
        path: String,
        /// The attribute's name.
        name: String,
    },
    /// The value is none that the attribute takes (`EINVAL`).
    #[error("{path:?}: the attribute {name:?} cannot have this value: {reason}")]
    NotUnderstood {
        /// The path.
        path: String,
        /// The attribute's name.
        name: String,
        /// The defect, and the right form.
        reason: String,
    },
    /// Files of a store do not support this (`ENOTSUP`).
    #[error("{path:?}: {reason}")]
    NotSupported {
        /// The path.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl FileError {
    /// Returns the error's number, as in `errno`.
    pub fn errno(&self) -> i32 {
        match self {
            FileError::NotFound(_) => libc::ENOENT,
            FileError::Exists(_) => libc::EEXIST,
            FileError::NotDirectory(_) => libc::ENOTDIR,
            FileError::IsDirectory(_) => libc::EISDIR,
            FileError::NotEmpty(_) => libc::ENOTEMPTY,
            FileError::NameTooLong(_) => libc::ENAMETOOLONG,
            FileError::Invalid { .. } | FileError::NotUnderstood { .. } => libc::EINVAL,
            FileError::Reserved(_) => libc::EPERM,
            FileError::TooManyLinks(_) => libc::ELOOP,
            FileError::TooLarge(_) => libc::EFBIG,
            FileError::Stale(_) => libc::ESTALE,
            FileError::NoAttribute { .. } => libc::ENODATA,
            FileError::NotSupported { .. } => libc::ENOTSUP,
            FileError::Engine(error) => match error {
                Error::NotFound { .. } | Error::NoUpload { .. } => libc::ENOENT,
                Error::BadKey { .. } | Error::BadPart { .. } => libc::EINVAL,
                Error::Reserved { .. } => libc::EPERM,
                Error::ReadOnlyOrigin { .. } => libc::EROFS,
                Error::ChangedAtOrigin { .. } => libc::ESTALE,
                Error::KeyTooLong { .. } => libc::ENAMETOOLONG,
                Error::TooLarge { .. } => libc::EFBIG,
                Error::Conflict { .. } | Error::Replaced { .. } => libc::ESTALE,
                Error::NoSpace { .. } | Error::StillOwed { is_full: true, .. } => libc::ENOSPC,
                Error::StillOwed { .. } => libc::ETIMEDOUT,
                Error::Io { cause, .. } => cause.raw_os_error().unwrap_or(libc::EIO),
                _ => libc::EIO,
            },
        }
    }

    pub(super) fn not_found(path: &[u8]) -> FileError {
        FileError::NotFound(key::show(path))
    }

    pub(super) fn stale(path: &[u8]) -> FileError {
        FileError::Stale(key::show(path))
    }
}

impl From<terrace_catalog::Error> for FileError {
    fn from(error: terrace_catalog::Error) -> Self {
        FileError::from(Error::from(error))
    }
}

impl From<key::KeyError> for FileError {
    fn from(error: key::KeyError) -> Self {
        FileError::from(Error::from(error))
    }
}
