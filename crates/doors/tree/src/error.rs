//! What can go wrong in the tree, each with the error number that it is in POSIX.

use terrace::files::FileError;

/// What can go wrong in the tree.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Files say no.
    #[error(transparent)]
    File(#[from] FileError),
    /// Datasets say no.
    #[error(transparent)]
    View(#[from] terrace_datasets::Error),
    /// Refused, for the reason that the error number tells.
    #[error("{}", std::io::Error::from_raw_os_error(*.0))]
    Refused(i32),
}

/// The result of an operation in the tree.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error's number, as in `errno`.
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

    /// Whether its number says less than who runs the store should know.
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

/// The file is no longer there.
pub(crate) const STALE: Error = Error::Refused(libc::ESTALE);
