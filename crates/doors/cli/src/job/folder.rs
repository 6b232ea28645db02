//! The folder that all hosts of a job see.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use terrace::{is_full, keep_room, replace_durably};

use crate::output::path_name;

/// The file that takes the room which small files of the job need when the folder is full.
const ROOM_FILE: &str = "room";
const ROOM_BYTES: u64 = 64 << 10;

/// A folder that all hosts of a job see, such as one of a parallel file system. It outlives the job.
pub struct SharedFolder(PathBuf);

impl SharedFolder {
    /// Uses this folder. It is made if it is missing, but the one that it lies in must be there: one of a file system that is not mounted
    /// would be another one on each host.
    pub fn open(path: &Path) -> Result<SharedFolder> {
        let path = std::path::absolute(path).context("the working directory")?;
        make_private(&path, false)?;
        let mode = fs::metadata(&path).with_context(|| format!("looking at {}", path_name(&path)))?.mode();
        if mode & 0o077 != 0 {
            bail!("{} can be read by others, and is to hold secrets; run chmod 700 on it", path_name(&path));
        }
        let folder = SharedFolder(path);
        // An error here is clearer than one in the middle of the start.
        let probe = folder.path(&format!("probe-{:016x}", terrace::Store::new_id()?));
        let written = fs::write(&probe, "").and_then(|()| fs::remove_file(&probe));
        written.with_context(|| format!("writing into {}", path_name(&folder.0)))?;
        make_private(&folder.path("hosts"), false)?;
        Ok(folder)
    }

    /// The path of something in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Reads a value that a host has written. None if there is none.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).with_context(|| wrong(&path))?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path_name(&path))),
        }
    }

    /// Writes a value, whole and durably, for the other hosts and for later jobs.
    pub fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.write_bytes(name, &serde_json::to_vec_pretty(value)?)
    }

    /// Writes bytes, whole and durably. The folder is private, and so are they. If it is full, the room that is kept in it is used.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(name);
        let written = match replace_durably(&path, bytes) {
            Err(error) if is_full(&error) && fs::remove_file(self.path(ROOM_FILE)).is_ok() => {
                replace_durably(&path, bytes)
            }
            written => written,
        };
        written.with_context(|| format!("writing {}", path_name(&path)))
    }

    /// Keeps room for the small files of the job.
    pub fn keep_room(&self) -> Result<()> {
        let kept = keep_room(&self.path(ROOM_FILE), ROOM_BYTES);
        kept.with_context(|| format!("keeping room in {}", path_name(&self.0)))
    }
}

/// Makes a folder for its owner only, unless it is there.
pub fn make_private(path: &Path, with_parents: bool) -> Result<()> {
    match DirBuilder::new().recursive(with_parents).mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("making {}", path_name(path)))
        }
        _ => Ok(()),
    }
}

fn wrong(path: &Path) -> String {
    format!("{} was not written by this version of terrace; use that one, or another folder", path_name(path))
}
