//! Python's buffers as slices. The caller must not change a buffer until the call returns, as with `hashlib` or `socket`.

// Buffers are passed as pointers; the comment at each use says why it is valid.
#![allow(unsafe_code)]

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

/// Bytes to read from: `bytes`, `memoryview`, an array...
pub struct Source(PyUntypedBuffer);

/// Bytes to write to.
pub struct Target(PyUntypedBuffer);

const MASKED_ARRAY_REFUSAL: &str = "a masked array would lose its mask; put array.filled(VALUE), or array.data under one key and \
    numpy.ma.getmaskarray(array) under another";

fn contiguous(given: Borrowed<'_, '_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = match PyUntypedBuffer::get(&given) {
        // Scalars have no shape and ctypes arrays have no strides, which this kind of buffer needs. A view of bytes has
        // both.
        Err(error) if error.is_instance_of::<PyBufferError>(given.py()) => {
            PyUntypedBuffer::get(&PyMemoryView::from(&given)?.call_method1("cast", ("B",))?)?
        }
        got => got?,
    };
    match buffer.is_c_contiguous() {
        true => Ok(buffer),
        false => Err(PyBufferError::new_err("the buffer is not contiguous; copy it, as numpy.ascontiguousarray does")),
    }
}

/// Refuses masked arrays: their buffer has all values and no mask.
fn refuse_masked(given: Borrowed<'_, '_, PyAny>) -> PyResult<()> {
    if given.cast::<PyBytes>().is_ok() || given.cast::<PyByteArray>().is_ok() {
        return Ok(());
    }
    let loaded = given.py().import("sys")?.getattr("modules")?;
    // If NumPy is not loaded, the object cannot be one of its arrays.
    let Ok(masked) = loaded.get_item("numpy.ma") else { return Ok(()) };
    let masks = given.is_instance(&masked.getattr("MaskedArray")?)?
        && masked.getattr("is_masked")?.call1((given,))?.is_truthy()?;
    match masks {
        true => Err(PyTypeError::new_err(MASKED_ARRAY_REFUSAL)),
        false => Ok(()),
    }
}

impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Source> {
        refuse_masked(given)?;
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
    /// Returns the bytes.
    pub fn slice(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the buffer is contiguous, has `length` bytes, and is held by `self`.
            length => unsafe { slice::from_raw_parts(self.0.buf_ptr().cast(), length) },
        }
    }
}

impl AsMut<[u8]> for Target {
    fn as_mut(&mut self) -> &mut [u8] {
        match self.0.len_bytes() {
            0 => &mut [],
            // SAFETY: the buffer is contiguous, writable, has `length` bytes, and is held by `self`.
            length => unsafe { slice::from_raw_parts_mut(self.0.buf_ptr().cast(), length) },
        }
    }
}
