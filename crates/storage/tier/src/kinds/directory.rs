//! `kind = "directory"`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::home_lock::HomeLock;
use crate::removal::{find_directory, remove_directory};
use crate::{
    Capabilities, DirectoryTarget, Making, OpenedTarget, Target, TargetFound, TargetKind, TargetOwner, TargetSettings,
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
        DirectoryTarget::probe(&settings.path)
    }

    /// Makes a missing directory if that is allowed: if the tier is not persistent, or the first time. Otherwise the target is
    /// set aside.
    fn open(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<OpenedTarget> {
        let making = match settings.persistent {
            false => Making::Always,
            true if owner.was_made() => Making::Never,
            true => Making::Once,
        };
        let target = DirectoryTarget::new(&settings.path, owner, settings.capacity, making);
        let trouble = match target.ready() {
            Ok(()) => {
                owner.note_made()?;
                None
            }
            // If another copy of the store is in use, this one must not be.
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Err(e),
            // A target that was there before is only set aside, whatever is in its place now, and so is a full memory tier: its
            // replicas are on other tiers as well, or lost.
            Err(e) if making == Making::Once => return Err(e),
            Err(e) => Some(e),
        };
        Ok(OpenedTarget { target: Arc::new(target), trouble })
    }

    fn find(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<TargetFound> {
        let found = find_directory(&settings.path, &owner.mark())?;
        if matches!(found, TargetFound::Own { .. }) {
            HomeLock::new(&owner.dir).check(&settings.path)?;
        }
        Ok(found)
    }

    fn remove(&self, settings: &TargetSettings, owner: &TargetOwner) -> io::Result<Vec<PathBuf>> {
        // Held until all is removed: another copy of the store may have the target in use.
        let home = HomeLock::new(&owner.dir);
        if settings.path.is_dir() {
            home.take(&settings.path)?;
        }
        remove_directory(&settings.path, owner.store, || owner.forget_made())
    }
}
