//! A store's directory: the files that say which store is here, and how it is configured.

use std::fs;
use std::io;
use std::path::Path;

use terrace_system::{read_regular, replace_durably};

use crate::config::Config;
use crate::{Error, Result};

/// The version of the store's format. A store with a newer one is refused.
pub const FORMAT_VERSION: u32 = 1;
/// The line of the file `store` that says that the store is being destroyed.
pub const DESTROYED_LINE: &str = "destroyed";
/// Names the boot in which the catalog was last used, and the steps of recovery that are done. A store that was never opened has none.
pub const BOOT_MARK_FILE: &str = "boot";

/// Returns whether a folder is the directory of a store. It has both files as long as the store exists.
pub fn is_home(dir: &Path) -> bool {
    dir.join("store").is_file() && dir.join("terrace.toml").is_file()
}

pub fn refuse(dir: &Path, reason: &str) -> Error {
    Error::Store { path: dir.to_owned(), reason: reason.to_owned() }
}

/// Reads the current configuration from its file.
///
/// # Errors
/// [`Error::Store`] if the file is not there, [`Error::Config`] if it is not valid.
pub fn read_config(dir: &Path) -> Result<Config> {
    match Config::read(&dir.join("terrace.toml")) {
        Err(Error::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
            let reason = "its file terrace.toml is lost. Write it again, with all tiers in the same order, and with each target's number \
                          (`number = N`) as in the second line of its file terrace-target";
            Err(refuse(dir, reason))
        }
        config => config,
    }
}

/// Reads a regular file of the store. None if it is not there.
pub fn read_file(path: &Path) -> Result<Option<Vec<u8>>> {
    match read_regular(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(Error::io(format!("reading {}", path.display()))),
    }
}

/// Returns the store's id.
///
/// # Errors
/// If no store is in `dir`, or if it is being destroyed.
pub fn read_identity(dir: &Path) -> Result<u64> {
    match read_state(dir)? {
        (id, false) => Ok(id),
        (_, true) => Err(refuse(dir, "it is being destroyed; run `terrace destroy` again to finish that")),
    }
}

/// Returns whether the log of a store is here.
pub fn has_log(dir: &Path) -> bool {
    holds_files(&dir.join("log"))
}

/// Returns the error for a store whose file `store` was lost or damaged.
pub fn lost_identity(dir: &Path) -> Error {
    if !dir.join(BOOT_MARK_FILE).exists() {
        // No process has opened it.
        return refuse(dir, "a `terrace rebuild --from` that was to make a store here was stopped; repeat it");
    }
    let reason = "a store is here, but its file `store` is lost or damaged. Write that again: the lines `format 1` and `id ID`, with the ID from the file terrace-target of any of its targets";
    refuse(dir, reason)
}

/// Returns the store's id, and whether its destruction has begun.
pub fn read_state(dir: &Path) -> Result<(u64, bool)> {
    let not_text = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    let text = match read_regular(&dir.join("store")).and_then(|bytes| String::from_utf8(bytes).map_err(not_text)) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // A target with a copy of the log must not be mistaken for a store that lost its file.
            return Err(match has_log(dir) && !dir.join(terrace_tier::MARKER_FILE).exists() {
                true => lost_identity(dir),
                false => refuse(dir, "no store is here; `terrace init --store DIR` makes one"),
            });
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(lost_identity(dir)),
        Err(e) => return Err(Error::io(format!("reading {}", dir.join("store").display()))(e)),
    };
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    match field("format").and_then(|f| f.parse::<u32>().ok()) {
        Some(FORMAT_VERSION) => {}
        Some(newer) if newer > FORMAT_VERSION => {
            return Err(refuse(
                dir,
                &format!("its format is {newer}, this program knows {FORMAT_VERSION}; use a newer terrace"),
            ));
        }
        _ => return Err(lost_identity(dir)),
    }
    let id = field("id").and_then(|f| u64::from_str_radix(f, 16).ok());
    let id = id.ok_or_else(|| lost_identity(dir))?;
    Ok((id, text.lines().any(|line| line == DESTROYED_LINE)))
}

/// Returns whether a folder holds a file that is not empty.
pub fn holds_files(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0))
}

/// Replaces a file of the store's directory, durably.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    replace_durably(path, bytes).map_err(Error::io(format!("writing {}", path.display())))
}
