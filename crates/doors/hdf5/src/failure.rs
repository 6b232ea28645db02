//! Failed calls, as HDF5 and its users see them.

use std::ffi::{CStr, c_int};
use std::io::{self, Write};

use terrace::files::FileError;

use crate::library::Library;

/// A call's failure.
#[derive(Debug)]
pub struct DriverError {
    /// The number, as in `errno`.
    pub number: c_int,
    /// The cause.
    pub cause: String,
}

/// The result of a call.
pub type DriverResult<T> = Result<T, DriverError>;

impl DriverError {
    /// Makes the error of this number.
    pub fn new(number: c_int, cause: impl Into<String>) -> DriverError {
        DriverError { number, cause: cause.into() }
    }
}

impl From<FileError> for DriverError {
    fn from(error: FileError) -> Self {
        DriverError::new(error.errno(), error.to_string())
    }
}

impl From<io::Error> for DriverError {
    fn from(error: io::Error) -> Self {
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        let text = error.to_string();
        // The number is shown beside the text.
        DriverError::new(number, text.trim_end_matches(&format!(" (os error {number})")))
    }
}

/// A call that failed: its verb, and the classes that HDF5 has for such errors, a major and a minor one.
pub struct FailedCall {
    verb: &'static str,
    /// The variable that has the number of the major class.
    major: &'static CStr,
    /// The variable that has the number of the minor class.
    minor: &'static CStr,
}

impl FailedCall {
    const fn new(verb: &'static str, major: &'static CStr, minor: &'static CStr) -> FailedCall {
        FailedCall { verb, major, minor }
    }

    pub const OPEN_CALL: FailedCall = FailedCall::new("open", c"H5E_FILE_g", c"H5E_CANTOPENFILE_g");
    pub const CLOSE_CALL: FailedCall = FailedCall::new("close", c"H5E_IO_g", c"H5E_CANTCLOSEFILE_g");
    pub const HANDLE_CALL: FailedCall = FailedCall::new("get the handle of", c"H5E_VFL_g", c"H5E_CANTGET_g");
    pub const READ_CALL: FailedCall = FailedCall::new("read", c"H5E_IO_g", c"H5E_READERROR_g");
    pub const WRITE_CALL: FailedCall = FailedCall::new("write", c"H5E_IO_g", c"H5E_WRITEERROR_g");
    pub const FLUSH_CALL: FailedCall = FailedCall::new("flush", c"H5E_IO_g", c"H5E_CANTFLUSH_g");
    pub const TRUNCATE_CALL: FailedCall = FailedCall::new("set the length of", c"H5E_IO_g", c"H5E_SEEKERROR_g");
    pub const LOCK_CALL: FailedCall = FailedCall::new("lock", c"H5E_VFL_g", c"H5E_CANTLOCKFILE_g");
    pub const UNLOCK_CALL: FailedCall = FailedCall::new("unlock", c"H5E_VFL_g", c"H5E_CANTUNLOCKFILE_g");
    pub const DELETE_CALL: FailedCall = FailedCall::new("delete", c"H5E_VFL_g", c"H5E_CANTDELETEFILE_g");
    pub const CONTROL_CALL: FailedCall = FailedCall::new("control", c"H5E_VFL_g", c"H5E_FCNTL_g");

    /// Tells HDF5 why the call failed, in the words of its own drivers, from which programs take the number.
    pub fn report(&self, name: &str, error: &DriverError) {
        let (verb, number, cause) = (self.verb, error.number, &error.cause);
        let text = format!("unable to {verb} file: name = '{name}', errno = {number}, error message = '{cause}'");
        if !Library::of_caller().is_some_and(|library| library.push_error(self.major, self.minor, &text)) {
            complain(&text);
        }
    }
}

/// Writes a line to standard error, for errors that HDF5 does not take.
pub fn complain(line: &str) {
    // If standard error is closed, nobody reads the line anyway.
    let _ = writeln!(io::stderr(), "terrace: {line}");
}
