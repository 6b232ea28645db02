//! Prints an object.

use std::ffi::OsStr;
use std::io::{self, StdoutLock, Write};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Error, Result, bail};
use terrace::{Kind, Store};

use super::tell_repaired;
use crate::output::name;
use crate::range::{Range, bounds};

pub fn cat(store: &Store, key: &OsStr, range: Option<&Range>) -> Result<bool> {
    if is_directory(store, key.as_bytes())? {
        bail!("{} is a directory; `terrace ls` lists what is in it", name(key.as_bytes()));
    }
    let (start, end) = bounds(range);
    // Locked once for the whole object instead of once for each block. Nothing else prints to stdout meanwhile.
    let mut pipe = Pipe { out: io::stdout().lock(), closed: false };
    let written = store.get_to(key.as_bytes(), start, end, &mut pipe);
    let written = written.map_err(Error::from).and_then(|_| pipe.flush().context("writing to stdout"));
    tell_repaired(store)?;
    if pipe.closed { Ok(true) } else { written.map(|()| true) }
}

/// Returns whether a key is that of a directory. One that holds files needs no object of its own.
fn is_directory(store: &Store, key: &[u8]) -> Result<bool> {
    match store.stat(key) {
        Ok(object) => Ok(object.attributes.kind == Kind::Directory),
        Err(terrace::Error::NotFound { .. }) => Ok(!store.list(key, None, 1)?.is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// Stdout, and whether its reader has closed it, which is not an error.
struct Pipe {
    out: StdoutLock<'static>,
    closed: bool,
}

impl Pipe {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.closed |= done.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        done
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}
