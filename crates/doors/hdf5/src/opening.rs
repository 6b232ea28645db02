//! Finds out where a file is, and opens or removes it there.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use terrace_prefix::route::Route;

use crate::failure::DriverResult;
use crate::file_of_store::FileOfStore;
use crate::open_bytes::{OpenBytes, OpenFlags};
use crate::ordinary::OrdinaryFile;
use crate::store;

/// Opens a file in the store, or an ordinary one.
pub fn open(name: &CStr, flags: OpenFlags) -> DriverResult<Box<dyn OpenBytes>> {
    let found = match store::find(name) {
        // No call of the program could have made the folders: only HDF5's reach the store.
        Err(error) if flags.creates && error.number == libc::ENOENT => {
            store::make_folders_of(name)?;
            store::find(name)
        }
        found => found,
    };
    Ok(match found? {
        None => Box::new(OrdinaryFile::open(path(name), flags)?),
        Some((_, Route::Elsewhere(other))) => Box::new(OrdinaryFile::open(path(&other), flags)?),
        Some((files, Route::Below(key, stat))) => Box::new(FileOfStore::open(&files, key, stat, flags)?),
    })
}

/// Removes a file.
pub fn delete(name: &CStr) -> DriverResult<()> {
    match store::find(name)? {
        None => fs::remove_file(path(name))?,
        Some((_, Route::Elsewhere(other))) => fs::remove_file(path(&other))?,
        Some((files, Route::Below(key, _))) => files.remove(&key)?,
    }
    Ok(())
}

fn path(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}
