//! Keys: `str`, `bytes` or a path. Bytes that are not UTF-8 are escaped like Python escapes file names.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A key that a caller passes.
pub struct Key(pub Vec<u8>);

impl<'py> FromPyObject<'_, 'py> for Key {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Key> {
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Key(bytes.as_bytes().to_vec()));
        }
        Ok(Key(given.extract::<PathBuf>()?.into_os_string().into_vec()))
    }
}

/// Converts a key for Python.
pub fn shown(key: Vec<u8>) -> OsString {
    OsString::from_vec(key)
}
