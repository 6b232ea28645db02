//! Room that Python has for what is read.

// New `bytes` are filled before anybody else sees them.
#![allow(unsafe_code)]

use std::slice;

use engine::files::FileError;
use engine::{Kind, Object, Result, key};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Target;
use crate::failure::{raised, refused};
use crate::object;

/// New bytes that nobody else has seen.
struct Fresh(Py<PyBytes>);

impl AsMut<[u8]> for Fresh {
    fn as_mut(&mut self) -> &mut [u8] {
        Python::attach(|py| {
            let bytes = self.0.bind(py).as_bytes();
            // SAFETY: the bytes were just made, only `self` knows them, and it lends them out once.
            unsafe { slice::from_raw_parts_mut(bytes.as_ptr().cast_mut(), bytes.len()) }
        })
    }
}

/// What holds room or says why there is none.
struct Perhaps<T>(PyResult<T>);

impl<T: AsMut<[u8]>> AsMut<[u8]> for Perhaps<T> {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], |room| room.as_mut())
    }
}

/// A range of an object, to its end where `end` is none, as new `bytes`.
pub fn bytes<'py>(
    py: Python<'py>,
    store: &engine::Store,
    key: &[u8],
    start: u64,
    end: Option<u64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let room = |object: &Object, length: usize| {
        Perhaps(Python::attach(|py| match object.attributes.kind {
            Kind::Directory => Err(refused(FileError::IsDirectory(key::show(key)))),
            _ => PyBytes::new_with(py, length, |_| Ok(())).map(|new| Fresh(new.unbind())),
        }))
    };
    let read: Result<_> = py.detach(|| store.get_into(key, start, end, room));
    Ok(read.map_err(raised)?.0?.0.into_bound(py))
}

/// Reads a whole object into the buffer that `make` makes for it, a function of an `Object`; the buffer.
pub fn made<'py>(
    py: Python<'py>,
    store: &engine::Store,
    key: &[u8],
    make: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    struct Made(Target, Py<PyAny>);
    impl AsMut<[u8]> for Made {
        fn as_mut(&mut self) -> &mut [u8] {
            self.0.as_mut()
        }
    }
    let make = make.clone().unbind();
    let room = |object: &Object, length: usize| {
        Perhaps(Python::attach(|py| {
            let made = make.bind(py).call1((object::Object::of(key, object),))?;
            let mut target: Target = made.extract()?;
            match target.as_mut().len() == length {
                true => Ok(Made(target, made.unbind())),
                false => Err(pyo3::exceptions::PyValueError::new_err(format!("room of {length} bytes is needed"))),
            }
        }))
    };
    let read: Result<_> = py.detach(|| store.get_into(key, 0, None, room));
    Ok(read.map_err(raised)?.0?.1.into_bound(py))
}
