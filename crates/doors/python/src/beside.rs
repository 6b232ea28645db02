//! Temporary files that replace their destination when they are complete, so that nobody sees a part of a file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::sparse::SparseWriter;
use pyo3::prelude::*;

use crate::failure::{of_path, raised};
use crate::pipe;

/// The number in the name of the next temporary file of this process.
static NEXT_FILE_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Writes an object to a file. Returns its length. An existing file stays unchanged until the new one is complete.
pub fn get_file(
    py: Python<'_>,
    store: &engine::Store,
    key: &[u8],
    path: &Path,
    tell: Option<Bound<'_, PyAny>>,
) -> PyResult<u64> {
    // A symbolic link stays, and its target is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&path).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        // A pipe or a device cannot be replaced. Opening a directory fails with the right error.
        let there = File::options().write(true).open(&path).map_err(of_path(&path))?;
        let written = pipe::get(py, store, key, (0, None), |object| Ok(Through(&there, object.length)), tell)?;
        return Ok(written.1);
    }
    store.stat(key).map_err(raised)?;
    let beside = Beside::new(&path);
    let file = File::create_new(&beside.0).map_err(of_path(&path))?;
    let mut length = 0;
    let make = |object: &engine::Object| {
        length = object.length;
        Ok(SparseWriter::new(&file))
    };
    pipe::get(py, store, key, (0, None), make, tell)?.finish()?;
    if let Some(before) = before {
        file.set_permissions(before.permissions())?;
    }
    fs::rename(&beside.0, &path).map_err(of_path(&path))?;
    Ok(length)
}

/// An output that cannot seek; holes are written as zeros.
struct Through<'a>(&'a File, u64);

impl io::Write for Through<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl engine::sparse::WriteHoles for Through<'_> {
    fn skip_hole(&mut self, length: u64) -> io::Result<()> {
        engine::sparse::Dense(self.0).skip_hole(length)
    }
}

/// A file that is removed when it is dropped before it is complete.
struct Beside(PathBuf);

impl Beside {
    fn new(path: &Path) -> Beside {
        // Relaxed is enough, because only the number itself is shared.
        let number = NEXT_FILE_NUMBER.fetch_add(1, Ordering::Relaxed);
        Beside(path.with_file_name(format!(".terrace-{}-{number}", process::id())))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // After a rename there is nothing to remove. If the removal fails, the error that led here is more important.
        let _ = fs::remove_file(&self.0);
    }
}
