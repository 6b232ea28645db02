//! The mounts of the persistent directory targets, as of the last opening.
//!
//! A target's disk that is unplugged and plugged in again loses unsynced writes while the store's own directory, and the catalog in
//! it, stay. The catalog then names bytes that are gone, as after a power cut.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use terrace_system::{read_regular, replace};

use super::incarnation::read_mount;
use crate::config::Config;
use crate::{Error, Result};

/// Has a line for each target: the number of its mount, a blank, and its path.
pub const MOUNTS_FILE: &str = "mounts";

fn read_noted(dir: &Path) -> BTreeMap<PathBuf, u64> {
    // Without the note, any mount may be the one of before.
    let text = read_regular(&dir.join(MOUNTS_FILE)).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        let number = std::str::from_utf8(&line[..at]).ok()?.parse().ok()?;
        Some((PathBuf::from(OsStr::from_bytes(&line[at + 1..])), number))
    });
    lines.collect()
}

/// Returns the number of a target's mount. None if it is not mounted: the empty folder in its place is on another file system.
fn find_mount(path: &Path) -> Option<u64> {
    terrace_tier::read_marker(path).ok()?;
    read_mount(path)
}

/// Returns a target whose file system was mounted again since the last opening, or since this one.
pub fn find_remounted(dir: &Path) -> Option<PathBuf> {
    let is_other = |path: &Path, noted: u64| find_mount(path).is_some_and(|mount| mount != noted);
    read_noted(dir).into_iter().find(|(path, noted)| is_other(path, *noted)).map(|(path, _)| path)
}

/// Notes the present mounts. A target that is away keeps its line, so that it is compared when it comes back, unless all was durable
/// before (`was_clean`).
pub fn note_mounts(dir: &Path, config: &Config, was_clean: bool) -> Result<()> {
    let noted = read_noted(dir);
    let before = if was_clean { BTreeMap::new() } else { noted.clone() };
    let now: BTreeMap<PathBuf, u64> = config
        .log_copy_paths()
        .filter(|path| !path.as_os_str().as_bytes().contains(&b'\n'))
        .filter_map(|path| Some((path.clone(), find_mount(path).or_else(|| before.get(path).copied())?)))
        .collect();
    if now == noted {
        return Ok(());
    }
    let mut text = Vec::new();
    for (path, mount) in now {
        text.extend_from_slice(format!("{mount} ").as_bytes());
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(b'\n');
    }
    // Not durable: if a power cut takes it, the boot mark is of an earlier boot.
    replace(&dir.join(MOUNTS_FILE), text).map_err(Error::io(format!("writing {}", dir.join(MOUNTS_FILE).display())))
}
