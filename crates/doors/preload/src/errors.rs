//! Errors as numbers, as C has them.

use std::ffi::c_int;

use terrace::files::FileError;

/// An error number, as in `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorNumber(pub c_int);

/// The result of a call.
pub type CallResult<T> = Result<T, ErrorNumber>;

/// Refuses a call.
pub fn refuse<T>(number: c_int) -> CallResult<T> {
    Err(ErrorNumber(number))
}

impl From<FileError> for ErrorNumber {
    fn from(error: FileError) -> Self {
        ErrorNumber(error.errno())
    }
}

impl From<terrace::Error> for ErrorNumber {
    fn from(error: terrace::Error) -> Self {
        FileError::from(error).into()
    }
}

/// Returns `errno`.
pub fn error_number() -> c_int {
    // SAFETY: the C library returns a pointer to this thread's own number.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno`.
pub fn set_error_number(number: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = number }
}

/// A return type of C functions that has a value for failures.
pub trait CReturn: Copy {
    /// The value that a call returns when it fails.
    const FAILURE_VALUE: Self;
}

impl CReturn for c_int {
    const FAILURE_VALUE: Self = -1;
}

impl CReturn for isize {
    const FAILURE_VALUE: Self = -1;
}

impl CReturn for i64 {
    const FAILURE_VALUE: Self = -1;
}

impl<T> CReturn for *mut T {
    const FAILURE_VALUE: Self = std::ptr::null_mut();
}

/// Returns a result of the C library as one.
pub fn of_kernel<T: CReturn + PartialEq>(returned: T) -> CallResult<T> {
    if returned == T::FAILURE_VALUE { refuse(error_number()) } else { Ok(returned) }
}
