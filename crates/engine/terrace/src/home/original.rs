//! Whether a store's directory is a copy of another one that is still there, as `cp -a` makes it.
//!
//! The copy names the targets of the original. Who destroys a copy does not mean the original's data.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use terrace_system::{read_regular, replace};

use super::identity::read_state;

/// Holds the path of the store's directory. A copy holds that of the original.
const PLACE_FILE: &str = "place";

/// Returns the directory that `dir` was copied from, if it still holds the store with this id.
pub fn find_original(dir: &Path, id: u64) -> Option<PathBuf> {
    let noted = read_regular(&dir.join(PLACE_FILE)).ok()?;
    let original = PathBuf::from(OsStr::from_bytes(&noted));
    let is_store = read_state(&original).is_ok_and(|(found, _)| found == id);
    (is_store && inode(&original)? != inode(dir)?).then_some(original)
}

/// Notes where the store is, unless `dir` is a copy of one that is still where it was. `dir` is absolute, without symbolic links.
pub fn note_place(dir: &Path, id: u64) {
    let path = dir.as_os_str().as_bytes();
    let is_noted = read_regular(&dir.join(PLACE_FILE)).is_ok_and(|noted| noted == path);
    if !is_noted && find_original(dir, id).is_none() {
        // Without the note, a copy counts as a store of its own.
        if let Err(error) = replace(&dir.join(PLACE_FILE), path) {
            tracing::debug!(store = %dir.display(), %error, "the store's place was not noted");
        }
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}
