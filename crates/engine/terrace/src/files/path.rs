//! Paths. A path is a key, or empty for the root.

use terrace_format::key::{self, MAX_KEY, RESERVED_FOLDER, show};

use super::{FileError, FileResult};

/// The longest component, in bytes.
const MAX_NAME: usize = 255;

/// Checks that a path may be looked up.
pub fn check(path: &[u8]) -> FileResult<()> {
    if path.is_empty() {
        return Ok(());
    }
    if path.len() > MAX_KEY || path.split(|&byte| byte == b'/').any(|name| name.len() > MAX_NAME) {
        return Err(FileError::NameTooLong(show(path)));
    }
    key::check(path)?;
    match key::below(path, RESERVED_FOLDER) {
        true => Err(FileError::not_found(path)),
        false => Ok(()),
    }
}

/// Checks that an entry may be created at a path.
pub fn check_new(path: &[u8]) -> FileResult<()> {
    if path.is_empty() {
        return Err(FileError::Exists("/".into()));
    }
    match key::below(path, RESERVED_FOLDER) {
        true => Err(FileError::Reserved(show(path))),
        false => check(path),
    }
}

/// Returns the directory that contains a path.
pub fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(&[], |at| &path[..at])
}
