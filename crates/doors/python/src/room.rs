//! Python buffers for reads.

// New `bytes` are filled before other code can see them.
#![allow(unsafe_code)]

use std::io::{self, Write};
use std::slice;

use engine::files::FileError;
use engine::sparse::WriteHoles;
use engine::{Error, Kind, Object, Result, key};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Target;
use crate::failure::{raised, refused};
use crate::key::Key;
use crate::object;
use crate::pipe::{self, MIN_PIPED_BYTES};

/// New bytes that no other code has seen.
struct Fresh(Py<PyBytes>);

impl AsMut<[u8]> for Fresh {
    fn as_mut(&mut self) -> &mut [u8] {
        Python::attach(|py| {
            let bytes = self.0.bind(py).as_bytes();
            // SAFETY: the bytes are new, only `self` refers to them, and it lends them out once.
            unsafe { slice::from_raw_parts_mut(bytes.as_ptr().cast_mut(), bytes.len()) }
        })
    }
}

/// The answer to a request for a buffer.
enum Perhaps<T> {
    /// The buffer, or the error of making it.
    Room(PyResult<T>),
    /// No buffer: the range is long, so it is read through a pipe, which a signal can interrupt.
    Long,
}

impl<T: AsMut<[u8]>> AsMut<[u8]> for Perhaps<T> {
    fn as_mut(&mut self) -> &mut [u8] {
        match self {
            Perhaps::Room(Ok(room)) => room.as_mut(),
            _ => &mut [],
        }
    }
}

/// Returns a range of an object as new `bytes`; to the end if `end` is `None`.
pub fn bytes<'py>(
    py: Python<'py>,
    store: &engine::Store,
    key: &[u8],
    start: u64,
    end: Option<u64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let make = |object: &Object, length: usize| match object.attributes.kind {
        Kind::Directory => Err(refused(FileError::IsDirectory(key::show(key)))),
        _ => Python::attach(|py| PyBytes::new_with(py, length, |_| Ok(())).map(|new| Fresh(new.unbind()))),
    };
    Ok(read(py, store, key, (start, end), make)?.0.into_bound(py))
}

/// Reads a range of an object into a buffer. `make` gets the object and the number of bytes, and creates the buffer.
fn read<R: AsMut<[u8]> + Send>(
    py: Python<'_>,
    store: &engine::Store,
    key: &[u8],
    range: (u64, Option<u64>),
    make: impl Fn(&Object, usize) -> PyResult<R> + Sync,
) -> PyResult<R> {
    let room = |object: &Object, length: usize| match (length as u64) < MIN_PIPED_BYTES {
        true => Perhaps::Room(make(object, length)),
        false => Perhaps::Long,
    };
    let read: Result<_> = py.detach(|| store.get_into(key, range.0, range.1, room));
    match read.map_err(raised)? {
        Perhaps::Room(room) => room,
        Perhaps::Long => {
            let make = |object: &Object| {
                let length = range.1.map_or(object.length, |end| end.min(object.length)).saturating_sub(range.0);
                let length = usize::try_from(length).map_err(|_| PyOverflowError::new_err("read it in parts"))?;
                Ok(Filled { room: make(object, length)?, at: 0 })
            };
            Ok(pipe::get(py, store, key, range, make, None)?.room)
        }
    }
}

/// Fills a buffer from the object's byte `offset` on. Returns the number of bytes read.
pub fn fill(py: Python<'_>, store: &engine::Store, key: &[u8], offset: u64, out: &mut [u8]) -> PyResult<usize> {
    let length = out.len() as u64;
    if length < MIN_PIPED_BYTES {
        return py.detach(|| store.read_at(key, offset, out)).map_err(raised);
    }
    let mut out = Some(out);
    let make = |_: &Object| Ok(Filled { room: out.take().unwrap_or_default(), at: 0 });
    Ok(pipe::get(py, store, key, (offset, Some(offset.saturating_add(length))), make, None)?.at)
}

/// Returns `length` bytes from byte `offset` on of some objects in sequence. Each object has `whole` bytes; only the last one may be shorter.
/// Returns none if an object is gone, unreadable or too short.
pub fn read_joined<'py>(
    py: Python<'py>,
    store: &engine::Store,
    keys: &[Key],
    whole: u64,
    offset: u64,
    length: usize,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let mut is_whole = false;
    let bytes = PyBytes::new_with(py, length, |mut rest| {
        let mut offset = offset;
        for key in keys {
            let in_object = usize::try_from(whole.saturating_sub(offset)).unwrap_or(usize::MAX).min(rest.len());
            let (part, after) = rest.split_at_mut(in_object);
            match py.detach(|| store.read_at(&key.0, offset, part)) {
                Ok(read) if read == in_object => {}
                Ok(_) | Err(Error::NotFound { .. } | Error::Unreadable { .. }) => return Ok(()),
                Err(error) => return Err(raised(error)),
            }
            py.check_signals()?;
            (rest, offset) = (after, 0);
        }
        is_whole = rest.is_empty();
        Ok(())
    })?;
    Ok(is_whole.then_some(bytes))
}

/// A buffer that is filled piece by piece.
struct Filled<R> {
    room: R,
    at: usize,
}

impl<R: AsMut<[u8]>> Filled<R> {
    fn next(&mut self, length: usize) -> io::Result<&mut [u8]> {
        let start = self.at;
        self.at += length;
        self.room.as_mut().get_mut(start..start + length).ok_or_else(|| io::ErrorKind::WriteZero.into())
    }
}

impl<R: AsMut<[u8]>> Write for Filled<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.next(bytes.len())?.copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R: AsMut<[u8]>> WriteHoles for Filled<R> {
    fn skip_hole(&mut self, length: u64) -> io::Result<()> {
        self.next(length as usize)?.fill(0);
        Ok(())
    }
}

/// Calls the Python function `make` with the object, reads the whole object into the buffer that it returns, and returns that buffer.
pub fn get_made<'py>(
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
    let make = |object: &Object, length: usize| {
        Python::attach(|py| {
            let made = make.bind(py).call1((object::Object::of(key, object),))?;
            let mut target: Target = made.extract()?;
            match target.as_mut().len() == length {
                true => Ok(Made(target, made.unbind())),
                false => Err(pyo3::exceptions::PyValueError::new_err(format!("the buffer must have {length} bytes"))),
            }
        })
    };
    Ok(read(py, store, key, (0, None), make)?.1.into_bound(py))
}
