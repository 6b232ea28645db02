//! Starts a new log from a snapshot of the catalog when the log itself is damaged or lost.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use terrace_catalog::log;
use terrace_system::remove_folder;

use super::Care;
use crate::journal::set_aside;
use crate::{Error, Result};

impl Care {
    /// Starts a new log behind a snapshot of the catalog, which becomes commit `sequence`. The rest of the old log and its
    /// copies is kept as `log.damaged-N`.
    ///
    /// Everything that the snapshot names is made durable first. The two folders then exchange their names in one step, so
    /// that a crash leaves either the old log or the new one. `sequence` must be greater than every commit that any copy of
    /// the old log may hold: otherwise a copy could count as the longer log.
    pub fn restart_log(&self, sequence: u64) -> Result<()> {
        let catalog = &self.catalog;
        for device in self.tiers.devices.iter().filter(|device| self.tiers.tier(device).persistent) {
            let segments: Vec<u64> = catalog.segments(device.id)?.into_iter().map(|(id, _)| id).collect();
            if let Err(e) = device.target.sync(&segments) {
                device.failed(&e);
                return Err(Error::io(format!("syncing {}", device.path.display()))(e));
            }
        }
        catalog.jump_to(sequence)?;
        let folder = catalog.log().folder();
        let new = folder.with_extension("new");
        let context = || format!("beginning the log again in {}", folder.display());
        // The leftovers of an earlier attempt: nothing reads a folder of this name.
        remove_folder(&new).map_err(Error::io(format!("removing {}", new.display())))?;
        fs::DirBuilder::new().mode(0o700).create(&new).map_err(Error::io(context()))?;
        catalog.write_snapshot(&log::snapshot(&new, sequence))?;
        sync(&new).map_err(Error::io(context()))?;
        exchange(&new, folder).and_then(|()| sync(&self.journal.dir)).map_err(Error::io(context()))?;
        set_aside(&new, folder)?;
        catalog.log().forget_open_file();
        for device in self.journal.log_copies() {
            let copy = device.path.join("log");
            if let Err(Error::Io { cause, .. }) = set_aside(&copy, &copy) {
                device.failed(&cause);
            }
        }
        self.journal.mark_synced()
    }
}

/// Exchanges the names of two folders.
fn exchange(new: &Path, old: &Path) -> std::io::Result<()> {
    match renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE) {
        // This file system cannot exchange names. A crash between these two steps leaves no log, and the new log beside its
        // place.
        Err(Errno::INVAL | Errno::NOSYS) => {
            let held = old.with_extension("old");
            fs::rename(old, &held)?;
            fs::rename(new, old)?;
            fs::rename(held, new)
        }
        exchanged => Ok(exchanged?),
    }
}

/// Makes the names in a folder durable. Steps that rely on them come later: the exchange needs the snapshot's name, and the
/// log's new commits need the exchange.
fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
