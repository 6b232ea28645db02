//! Checks the location of a store's directory before anything is created or opened there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::filesystem::{Suitability, judge_directory};
use super::mounts::Mounts;
use super::node_local::suggest_directories;
use super::refuse;
use crate::{Error, Result};

/// Refuses directories on network file systems, and warns of types that are not known.
pub fn check_place(dir: &Path) -> Result<Suitability> {
    let mounts = Mounts::read();
    let existing = existing_part(dir);
    let context = || format!("looking at the file system of {}", existing.display());
    // Opening the directory also triggers an automatic mount.
    let directory = File::open(&existing).map_err(Error::io(context()))?;
    let found = judge_directory(&directory, &mounts).map_err(Error::io(context()))?;
    match &found {
        Suitability::Local(_) => {}
        Suitability::Unknown(kind) => warn_once(dir, kind),
        Suitability::Shared(kind) => return Err(refuse(dir, &describe_refusal(dir, kind, &mounts))),
    }
    Ok(found)
}

/// Returns the nearest existing directory at or above a path.
fn existing_part(dir: &Path) -> PathBuf {
    let there = dir.ancestors().find(|path| fs::metadata(path).is_ok());
    match there {
        Some(path) if !path.as_os_str().is_empty() => path.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn warn_once(dir: &Path, kind: &str) {
    static WARNED_DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    // A thread that panicked while it held the lock left the list complete.
    let mut warned = WARNED_DIRECTORIES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !warned.iter().any(|known| known == dir) {
        warned.push(dir.to_owned());
        tracing::warn!(
            store = %dir.display(),
            "Terrace does not know the store's file system ({kind}); if other machines can write to it, move the store's directory to a local disk, or writes may be lost"
        );
    }
}

fn describe_refusal(dir: &Path, kind: &str, mounts: &Mounts) -> String {
    let way = match dir.join("store").exists() {
        true => {
            "end all processes that use the store, copy this directory to a disk of this machine (`cp -a`), and name the copy"
        }
        false => "name a directory on a disk of this machine",
    };
    let found = suggest_directories(mounts);
    let suggested = match found.is_empty() {
        true => String::new(),
        false => format!(". Directories that would do: {}", found.join("; ")),
    };
    format!(
        "it lies on a network file system ({kind}), where several machines can lose each other's writes; {way}, with --store \
         DIR or TERRACE_STORE. Tiers may stay on network file systems. If several machines are to use one store, `terrace node --join` or \
         `terrace cluster up` gives each a directory of its own{suggested}"
    )
}
