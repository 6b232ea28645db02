//! `kind = "directory"`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::removal::{find_directory, remove_directory};
use crate::{
    Capabilities, Directory, Making, OpenedTarget, Target, TargetFound, TargetKind, TargetOwner, TargetSettings,
};

/// Directories of any file system.
pub struct DirectoryKind;

impl TargetKind for DirectoryKind {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            local_path: true,
            log_copies: true,
            plain_files: true,
            open_segments: true,
            ..Capabilities::default()
        }
    }

    fn probe(&self, settings: &TargetSettings) -> io::Result<()> {
        Directory::probe(&settings.path)
    }

    /// Makes a missing directory if that is allowed: if the tier is not persistent, or the first time. Otherwise the target is
    /// set aside.
    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        let making = match settings.persistent {
            false => Making::Always,
            true if owner.was_made() => Making::Never,
            true => Making::Once,
        };
        let (path, capacity, ids) = (&settings.path, settings.capacity, owner.ids.clone());
        let place = (owner.store, owner.number);
        let target = Directory::new(path, place, capacity, owner.used(), ids, making, owner.emptied());
        let trouble = match target.ready() {
            Ok(()) => {
                owner.note_made()?;
                None
            }
            // A full memory tier is only set aside: its replicas are on other tiers as well, or lost.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists || making == Making::Once => return Err(e),
            Err(e) => Some(e),
        };
        Ok(OpenedTarget { target: Arc::new(target), trouble })
    }

    fn find(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<TargetFound> {
        find_directory(&settings.path, &owner.mark())
    }

    fn remove(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        remove_directory(&settings.path, owner.store, || owner.forget_made())
    }
}
