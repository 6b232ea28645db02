//! Python's buffers as slices. Whoever lends one must not change it until the call returns, as with `hashlib` or `socket`.

// Buffers come as pointers; what holds of them is said at each place.
#![allow(unsafe_code)]

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// Bytes to read from: `bytes`, `memoryview`, an array...
pub struct Source(PyUntypedBuffer);

/// Bytes to write to.
pub struct Target(PyUntypedBuffer);

fn contiguous(given: Borrowed<'_, '_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(&given)?;
    match buffer.is_c_contiguous() {
        true => Ok(buffer),
        false => Err(PyBufferError::new_err("the buffer is not contiguous; copy it, as numpy.ascontiguousarray does")),
    }
}

impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Source> {
        contiguous(given).map(Source)
    }
}

impl<'py> FromPyObject<'_, 'py> for Target {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Target> {
        let buffer = contiguous(given)?;
        match buffer.readonly() {
            true => Err(PyValueError::new_err("the buffer cannot be written to; give a bytearray or a writable array")),
            false => Ok(Target(buffer)),
        }
    }
}

impl Source {
    /// The bytes.
    pub fn slice(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the buffer is contiguous, of so many bytes, and held by `self`.
            length => unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), length) },
        }
    }
}

impl AsMut<[u8]> for Target {
    fn as_mut(&mut self) -> &mut [u8] {
        match self.0.len_bytes() {
            0 => &mut [],
            // SAFETY: the buffer is contiguous, writable, of so many bytes, and held by `self`.
            length => unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), length) },
        }
    }
}
