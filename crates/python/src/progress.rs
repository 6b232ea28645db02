//! Telling Python how far a copy is.

use std::io::{self, Read, Write};

use pyo3::prelude::*;

/// A reader or writer that calls `tell(done, total)` after each piece. What `tell` raises ends the copy.
pub struct Told<T> {
    inner: T,
    tell: Option<Py<PyAny>>,
    done: u64,
    total: u64,
    raised: Option<PyErr>,
}

impl<T> Told<T> {
    /// Around `inner`, of which `total` bytes are expected.
    pub fn new(inner: T, total: u64, tell: Option<Py<PyAny>>) -> Told<T> {
        Told { inner, tell, done: 0, total, raised: None }
    }

    /// What a callback, or the user by an interrupt, raised.
    pub fn raised(self) -> Option<PyErr> {
        self.raised
    }

    fn tell(&mut self, count: usize) -> io::Result<usize> {
        self.done += count as u64;
        let told = Python::attach(|py| {
            py.check_signals()?;
            self.tell.as_ref().map_or(Ok(()), |tell| tell.call1(py, (self.done, self.total)).map(drop))
        });
        told.map(|()| count).map_err(|error| {
            self.raised = Some(error);
            io::Error::other("the progress callback raised an exception")
        })
    }
}

impl<T: Read> Read for Told<T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.inner.read(out)? {
            0 => Ok(0),
            count => self.tell(count),
        }
    }
}

impl<T: Write> Write for Told<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.tell(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
