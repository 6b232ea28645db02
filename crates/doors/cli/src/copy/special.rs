//! Writes objects that are no regular files: directories and symbolic links.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use terrace::files::Owner;
use terrace::{Attributes, Store};

use super::restore::NotRestored;
use crate::interrupt::TemporaryFile;

/// Makes a directory, unless it is there, and sets its attributes.
pub fn write_directory(
    path: &Path,
    attributes: &Attributes,
    usual: Owner,
    not_restored: &NotRestored,
) -> io::Result<()> {
    fs::create_dir_all(path)?;
    not_restored.owner(path, attributes, usual)?;
    not_restored.mode_and_time(&File::open(path)?, attributes, usual)
}

/// Writes a symbolic link, which replaces what is at its path. Returns the length of the path that it holds.
pub fn write_link(
    store: &Store,
    key: &[u8],
    path: &Path,
    attributes: &Attributes,
    usual: Owner,
    not_restored: &NotRestored,
) -> Result<u64> {
    let to = store.get(key)?;
    let length = to.len() as u64;
    let (beside, ()) = TemporaryFile::make(path, |beside| symlink(OsString::from_vec(to), beside))?;
    not_restored.owner(beside.path(), attributes, usual)?;
    beside.into_place(path)?;
    Ok(length)
}
