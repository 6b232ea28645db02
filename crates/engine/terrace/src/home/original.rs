//! Whether a store's directory is a copy of another one that is still there, as `cp -a` makes it.
//!
//! The copy names the targets of the original. If it were used while the original is idle, the commits of both would go apart, and each
//! would take what the other has written for garbage. And who destroys a copy does not mean the original's data.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use terrace_system::{read_regular, replace};

use super::id_check::check_id;
use super::identity::{read_identity, read_state, refuse};
use super::place_check::check_place;
use crate::{Error, Result};

/// Holds the path of the store's directory. A copy holds that of the original.
const PLACE_FILE: &str = "place";

/// The thing at the path that a store's directory has noted as its own.
enum Noted {
    /// The directory itself, maybe by another name, such as that of a mount or a link.
    Here,
    /// Another directory that holds the same store.
    Original(PathBuf),
    /// Nothing that this process may look at.
    Hidden,
    /// Something else, or nothing: the directory was moved, or was never opened.
    Gone,
}

fn find_noted(dir: &Path, id: u64) -> Noted {
    let Ok(noted) = read_regular(&dir.join(PLACE_FILE)) else { return Noted::Gone };
    let noted = PathBuf::from(OsStr::from_bytes(&noted));
    let is_gone = |e: &io::Error| matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    match fs::metadata(&noted) {
        Ok(found) if is_directory(dir, &found) => return Noted::Here,
        Err(e) if !is_gone(&e) => return Noted::Hidden,
        Err(_) => return Noted::Gone,
        Ok(_) => {}
    }
    match read_state(&noted) {
        Ok((found, _)) if found == id => Noted::Original(noted),
        Err(Error::Io { .. }) => Noted::Hidden,
        // Without a legible file `store`, no process opens it.
        _ => Noted::Gone,
    }
}

/// Paths differ between mounts and links, so device and inode are compared.
fn is_directory(dir: &Path, found: &Metadata) -> bool {
    fs::metadata(dir).is_ok_and(|own| (own.dev(), own.ino()) == (found.dev(), found.ino()))
}

/// Returns the directory that `dir` was copied from, if it still holds the store with this id.
pub fn find_original(dir: &Path, id: u64) -> Option<PathBuf> {
    match find_noted(dir, id) {
        Noted::Original(original) => Some(original),
        _ => None,
    }
}

/// Returns the id of the store in `dir`.
///
/// # Errors
/// If no store is in `dir`, if its id is damaged, if it is being destroyed, or if it is a copy of one that is still where it was.
pub fn check_identity(dir: &Path) -> Result<u64> {
    let id = read_identity(dir)?;
    check_id(dir, id)?;
    let Some(original) = find_original(dir, id) else { return Ok(id) };
    // Behind a network file system, that is the reason to give. And an original there is copied to this machine, as that advises.
    check_place(dir)?;
    if check_place(&original).is_err() {
        return Ok(id);
    }
    Err(refuse(dir, &describe_refused(dir, &original)))
}

/// Notes where the store is, unless the noted path already leads there. `dir` is absolute, without symbolic links.
pub fn note_place(dir: &Path, id: u64) {
    if matches!(find_noted(dir, id), Noted::Gone) {
        // Without the note, a copy counts as a store of its own.
        if let Err(error) = replace(&dir.join(PLACE_FILE), dir.as_os_str().as_bytes()) {
            tracing::debug!(store = %dir.display(), %error, "the store's place was not noted");
        }
    }
}

/// Describes a copy.
pub fn describe_copy(original: &Path) -> String {
    format!(
        "this directory is a copy of the store in {}, which is still there and keeps its targets",
        original.display()
    )
}

fn describe_refused(dir: &Path, original: &Path) -> String {
    format!(
        "{}. Keep one of the two: `terrace destroy --force` removes this one and leaves the targets alone. To make this one the store, \
         remove the file {} and open this one. If terrace.toml names other targets here than there, remove the file {}",
        describe_copy(original),
        original.join("store").display(),
        dir.join(PLACE_FILE).display()
    )
}
