//! Reads what is stored for a file, and notices files that change meanwhile.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use anyhow::{Context, Result};
use terrace::sparse::{Dense, ReadHoles, SparseReader};

use super::tree::Item;
use crate::output::path_name;

impl Item {
    /// Opens what is stored for the item: the bytes and holes of a file, or the path that a link leads to.
    pub fn open(&self, changes: FileChanges) -> Result<Box<dyn ReadHoles>> {
        self.read(changes).with_context(|| format!("reading {}", path_name(&self.path)))
    }

    fn read(&self, changes: FileChanges) -> io::Result<Box<dyn ReadHoles>> {
        let kind = self.metadata.file_type();
        if kind.is_symlink() {
            return Ok(Box::new(Dense(io::Cursor::new(fs::read_link(&self.path)?.into_os_string().into_vec()))));
        }
        if kind.is_dir() {
            return Ok(Box::new(Dense(io::empty())));
        }
        let file = File::open(&self.path)?;
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(Box::new(Dense(file)));
        }
        let before = length_and_time(&file.metadata()?);
        // Some system files report a size of zero but have content.
        let end = if before.0 == 0 { u64::MAX } else { before.0 };
        Ok(Box::new(ChangeCheckingReader { file: SparseReader::new(file, end), before, changes }))
    }
}

/// The handling of files that change while they are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FileChanges {
    /// Fail.
    Refused,
    /// Read up to the length that the file had when it was opened.
    Allowed,
}

/// A reader that fails if the file changes meanwhile, because the bytes would mix several states of it. `changes` says which changes are allowed.
/// It stops at the initial length, so that it also reaches the end of a file that grows as fast as it is read.
struct ChangeCheckingReader {
    file: SparseReader,
    before: (u64, i64, i64),
    changes: FileChanges,
}

impl Read for ChangeCheckingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        if read > 0 || out.is_empty() {
            return Ok(read);
        }
        let now = length_and_time(&self.file.file().metadata()?);
        let wrong = match self.changes {
            FileChanges::Refused if now != self.before => {
                "the file changed while it was read; put it again when nobody writes to it, or use --snapshot, which stores it up to its length at the start"
            }
            FileChanges::Allowed if now.0 < self.before.0 => "the file became shorter while it was read; put it again",
            _ => return Ok(0),
        };
        Err(io::Error::other(wrong))
    }
}

impl ReadHoles for ChangeCheckingReader {
    fn pass_hole(&mut self) -> io::Result<u64> {
        self.file.pass_hole()
    }
}

fn length_and_time(metadata: &fs::Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}
