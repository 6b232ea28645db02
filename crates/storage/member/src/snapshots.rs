//! [`SnapshotFolder`]: snapshots of the catalog that nodes leave for each other.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use terrace_catalog::{Catalog, Followed};
use terrace_order::OfferedSnapshot;
use terrace_system::reserve::keep_room;

use crate::error::{MemberError, Result};

/// How the name of a snapshot ends that is being written.
const UNFINISHED_EXTENSION: &str = "new";

/// A folder that all nodes see, such as one of a parallel file system. A node that is behind what the log still has loads a snapshot
/// from there.
#[derive(Clone, Debug)]
pub struct SnapshotFolder(PathBuf);

impl SnapshotFolder {
    /// Uses this folder. It is created if it is missing, but the one that it lies in must be there: a folder of a file system that is not
    /// mounted would be another one on each node.
    pub fn new(folder: &Path) -> io::Result<SnapshotFolder> {
        match fs::create_dir(folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => Ok(SnapshotFolder(folder.to_owned())),
        }
    }

    /// Writes a snapshot of a node's catalog, durably, instead of its last one, and returns its description for the log.
    ///
    /// # Errors
    /// If the folder takes no file.
    pub fn write(&self, catalog: &Catalog, node: &str) -> Result<OfferedSnapshot> {
        self.write_by(node, |new| {
            let followed = catalog.write_snapshot_for_others(new)?;
            Ok((format!("{node}-{:016x}", followed.slot), followed))
        })
    }

    /// Writes the snapshot with which a new log begins in the place of a lost one, which left this chain.
    ///
    /// # Errors
    /// As [`SnapshotFolder::write`].
    pub fn write_for_new_log(&self, catalog: &Catalog, node: &str, chain: u64) -> Result<OfferedSnapshot> {
        // No snapshot of the lost log has this name.
        self.write_by(node, |new| Ok((format!("new-{chain:016x}"), catalog.write_snapshot_for_new_log(new, chain)?)))
    }

    fn write_by(
        &self,
        node: &str,
        write: impl FnOnce(&Path) -> terrace_catalog::Result<(String, Followed)>,
    ) -> Result<OfferedSnapshot> {
        let new = self.unfinished(node);
        let (place, Followed { slot, chain, .. }) = write(&new)?;
        let path = self.0.join(&place);
        let put = || {
            fs::rename(&new, &path)?;
            // Before the log hears of it, and is trimmed because of it.
            File::open(&self.0)?.sync_all()?;
            fs::metadata(&path)
        };
        let length = put().map_err(|cause| MemberError::Snapshot { path: path.clone(), cause })?.len();
        Ok(OfferedSnapshot { slot, chain, length, place })
    }

    /// Keeps room for the next snapshot of each of these nodes, this many bytes, in the files into which they will be written. An older
    /// snapshot gives its room to the last one; anything else in the folder but the snapshot `kept` is removed.
    ///
    /// # Errors
    /// If the folder cannot be changed, or has no such room.
    pub fn keep_room(&self, kept: &str, nodes: [&str; 2], bytes: u64) -> io::Result<()> {
        let rooms = nodes.map(|node| self.unfinished(node));
        let last = &rooms[1];
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            if path.file_name() == Some(OsStr::new(kept)) || rooms.contains(&path) {
                continue;
            }
            // Another node may still write into an unfinished file of its own.
            if path.extension() == Some(OsStr::new(UNFINISHED_EXTENSION)) || last.try_exists()? {
                fs::remove_file(&path)?;
            } else {
                fs::rename(&path, last)?;
            }
        }
        rooms.iter().try_for_each(|room| keep_room(room, bytes))
    }

    fn unfinished(&self, node: &str) -> PathBuf {
        self.0.join(format!("{node}.{UNFINISHED_EXTENSION}"))
    }

    /// Removes all snapshots of a node but the one that it offers. A node that loads an older one meanwhile has it open.
    pub fn remove_old(&self, node: &str, offered: &OfferedSnapshot) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let slot =
                name.rsplit_once('-').filter(|(of, _)| *of == node).map(|(_, slot)| u64::from_str_radix(slot, 16));
            if matches!(slot, Some(Ok(slot)) if slot < offered.slot) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// The file of an offered snapshot.
    pub(crate) fn path(&self, offered: &OfferedSnapshot) -> PathBuf {
        self.0.join(&offered.place)
    }
}
