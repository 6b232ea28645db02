//! The errors of the tree, each with its POSIX error number.

use terrace::files::FileError;

/// The errors of the tree.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of the store's files.
    #[error(transparent)]
    File(#[from] FileError),
    /// An error of a dataset.
    #[error(transparent)]
    View(#[from] terrace_datasets::Error),
    /// A refusal with this error number.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Refused(i32),
}

/// The result of an operation in the tree.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the error number, as in `errno`.
    pub fn errno(&self) -> i32 {
        use terrace_datasets::Error as View;
        match self {
            Error::File(error) => error.errno(),
            Error::Refused(number) => *number,
            Error::View(error) => match error {
                View::NotFound(_) | View::NoView { .. } | View::BadName { .. } => libc::ENOENT,
                View::ReadOnly(_) => libc::EROFS,
                View::Beyond { .. } => libc::EFBIG,
                View::Busy(_) => libc::EBUSY,
                View::Store(terrace::Error::NoSpace { .. }) => libc::ENOSPC,
                _ => libc::EIO,
            },
        }
    }

    /// Whether the error number hides details that the store's operator should see.
    pub fn is_the_stores(&self) -> bool {
        match self {
            Error::File(error) => matches!(error, FileError::Engine(_)),
            Error::View(_) => self.errno() == libc::EIO,
            Error::Refused(_) => false,
        }
    }
}

pub(crate) fn refused<T>(number: i32) -> Result<T> {
    Err(Error::Refused(number))
}

/// The file no longer exists.
pub(crate) const STALE_FILE: Error = Error::Refused(libc::ESTALE);
