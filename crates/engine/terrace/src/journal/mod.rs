//! Makes commits durable: first frames, then the log, then the sync mark. Also keeps copies of the log, and makes snapshots, which
//! limit its length.

mod check_pieces;
mod fetch;
mod notes;
mod pieces;
mod refused;
mod replacing;
mod set_aside;
mod shared;
mod snapshot;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::{fs, io};

use terrace_catalog::log::{Reach, Tail};
use terrace_catalog::{Catalog, Edit};

use crate::Result;
use crate::devices::{Device, Tiers};
use crate::home::{TargetNote, find_remounted, refuse};

pub use fetch::{FetchedLog, SERVICE_COPIES_FOLDER, fetch_log};
pub use notes::NOTES_LOCK;
pub use pieces::read_copied;
pub use replacing::sync_before_replacing;
pub use set_aside::set_aside;

/// Copies of the log are kept on this many persistent targets.
const LOG_COPIES: usize = 3;

/// The findings of a comparison of the copies of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CopiesFound {
    /// Damaged files that were not written again, and copies that could not be compared.
    pub damaged: u64,
    /// Copies that lack the last changes, because their targets take no more.
    pub behind: u64,
}

/// Makes commits durable, with the frames that they name, and keeps copies of the log.
pub struct Journal {
    /// The store's directory.
    pub dir: PathBuf,
    pub catalog: Arc<Catalog>,
    pub tiers: Arc<Tiers>,
    /// The bytes in whole files of the log when a snapshot was written that named bytes in memory only, and so was dropped. 0: none was
    /// since the last good one.
    pub snapshot_in_vain: AtomicU64,
}

impl Journal {
    /// Syncs first the segments that commits have named since the last mark, then the log, then its copies.
    ///
    /// # Errors
    /// A failure of a persistent target, whose bytes must not count as durable.
    pub fn sync_files(&self) -> Result<()> {
        if self.catalog.is_shared() {
            return self.sync_shared(None);
        }
        let sequence = self.catalog.tail()?.sequence;
        let synced = self.catalog.synced()?;
        if synced + 1 >= sequence && synced > 0 {
            return self.copy_log(true);
        }
        for device in &self.tiers.devices {
            let dirty = self.dirty_segments(device, synced)?;
            if !dirty.is_empty() {
                self.check_age(device)?;
            }
            let done = if dirty.is_empty() { Ok(()) } else { device.target.sync(&dirty) };
            let done = match done {
                // Maybe no object needs the bytes that were lost.
                Err(e) if e.kind() == io::ErrorKind::InvalidData => self.sync_without_lost(device, synced, e)?,
                done => done,
            };
            if let Err(e) = done
                && self.tiers.tier(device).persistent
            {
                device.failed(&e);
                return Err(crate::Error::io(format!("syncing {}", device.path.display()))(e));
            }
        }
        // After the syncs: bytes that a later unmount takes are durable already.
        self.check_mounts()?;
        terrace_system::fail::point("sync:frames");
        // After the frames, so that the durable log names hardly any bytes that a power cut takes. The mark comes after both,
        // because it says that they are durable.
        self.catalog.log().sync(self.catalog.tail()?)?;
        terrace_system::fail::point("sync:log");
        self.copy_log(true)
    }

    /// Makes these objects durable, with all commits up to their last ones. Where several nodes share the store, bytes of other objects on
    /// a node that is away are not waited for.
    ///
    /// # Errors
    /// As [`Journal::sync_files`].
    pub fn sync_files_of(&self, objects: &[u64]) -> Result<()> {
        if self.catalog.is_shared() { self.sync_shared(Some(objects)) } else { self.sync_files() }
    }

    /// Checks that no target's file system was mounted again since the store was opened: unsynced writes may be lost, and a sync of
    /// the rest would succeed.
    fn check_mounts(&self) -> Result<()> {
        let Some(path) = find_remounted(&self.dir) else { return Ok(()) };
        let reason = format!(
            "the file system of {} was unmounted while the store was in use, and bytes may be lost; end the processes that have the \
             store open: the next one compares everything",
            path.display()
        );
        Err(refuse(&self.dir, &reason))
    }

    /// Syncs all files, and commits a mark for all commits before the first one with bytes in memory only. No power cut can damage
    /// the marked commits any more.
    pub fn mark_synced(&self) -> Result<()> {
        if self.catalog.is_shared() {
            return self.mark_shared();
        }
        let sequence = self.last_lasting()?;
        self.sync_files()?;
        if self.left_memory_after(sequence)? {
            return Ok(());
        }
        // The mark is a commit itself. If it is the last one, no new mark is needed.
        let synced = self.catalog.synced()?;
        if sequence > synced + 1 || synced == 0 && sequence > 0 {
            // It is durable: all files are synced.
            let tail = self.catalog.tail()?;
            self.catalog.log().sync(tail)?;
            self.note_synced(synced, Reach { sequence, record: (tail.sequence, tail.checksum) })?;
            self.catalog.commit(Edit::Synced { sequence }.into())?;
            // The mark itself, so that a recovery finds it. If it is lost, recovery only verifies more commits.
            let tail = self.catalog.tail()?;
            self.catalog.log().sync(tail)?;
            self.copy_log(true)?;
            self.write_reach(sequence, tail);
        }
        // Last, so that the copies say what they hold for sure.
        self.copy_to_services();
        Ok(())
    }

    /// The last commit before the first one with bytes in memory only.
    fn last_lasting(&self) -> Result<u64> {
        let persistent = |target| self.tiers.device(target).is_ok_and(|d| self.tiers.tier(d).persistent);
        let (tail, first) = self.catalog.tail_and_first_fleeting(persistent)?;
        Ok(first.map_or(tail, |first| tail.min(first.saturating_sub(1))))
    }

    /// The segments that commits after `synced` have added frames to.
    fn dirty_segments(&self, device: &Device, synced: u64) -> Result<Vec<u64>> {
        let segments = self.catalog.segments(device.id)?;
        Ok(segments.into_iter().filter(|(_, live)| live.sequence > synced).map(|(id, _)| id).collect())
    }

    /// Returns whether a commit after `sequence` has freed bytes in memory. A power cut may undo that commit, and bring an object
    /// back whose bytes were in memory only. A mark at `sequence` would call them durable, so none may be made.
    fn left_memory_after(&self, sequence: u64) -> Result<bool> {
        for device in self.tiers.devices.iter().filter(|device| !self.tiers.tier(device).persistent) {
            if self.catalog.last_freed(device.id)?.is_some_and(|at| at > sequence) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Updates the copies of the log on persistent targets. A target that fails is set aside.
    pub fn copy_log(&self, durable: bool) -> Result<()> {
        if self.catalog.is_shared() {
            // Its servers keep several.
            return Ok(());
        }
        let tail = self.catalog.tail()?;
        for device in self.log_copies() {
            match self.copy_log_to(device, tail, durable) {
                // The log is at fault, not the target.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    tracing::error!(
                        target = %device.path.display(),
                        %error,
                        "the copy of the log on this target was not updated, because the log is damaged; run `terrace rebuild`"
                    )
                }
                Err(error) => device.failed(&error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn copy_log_to(&self, device: &Device, tail: Tail, durable: bool) -> std::io::Result<()> {
        let (log, folder) = (self.catalog.log(), device.path.join("log"));
        if !durable && log.append_to_copy(&folder, tail)? {
            return Ok(());
        }
        // Never write to a directory that is not the target, such as a mount point.
        device.target.ready()?;
        if !self.has_this_log(device) {
            return Ok(());
        }
        log.copy_to(&folder, tail, durable)
    }

    /// Compares the copies of the log with the log, which is whole up to `tail`, and writes copies that are gone. With `repair`, also writes
    /// damaged files again. Returns the number of damaged files that were not written again; a copy that could not be compared or written
    /// counts as one, unless its target merely takes no more.
    pub fn check_copies(&self, tail: Tail, repair: bool) -> Result<CopiesFound> {
        let mut found = CopiesFound::default();
        for device in self.log_copies().filter(|device| device.target.ready().is_ok() && self.has_this_log(device)) {
            match self.check_copy(device, tail, repair) {
                Ok(files) => found.damaged += files,
                Err(error) => {
                    tracing::warn!(target = %device.path.display(), %error, "the copy of the commit log on this target is not whole");
                    device.failed(&error);
                    *(if takes_no_more(&error) { &mut found.behind } else { &mut found.damaged }) += 1;
                }
            }
        }
        // One that is away is told as such.
        for device in self.service_copies().filter(|device| device.target.ready().is_ok()) {
            match self.check_pieces(device, repair) {
                Ok(files) => found.damaged += files,
                Err(error) => {
                    device.failed(&error);
                    found.damaged += 1;
                }
            }
            found.behind += u64::from(TargetNote::log_behind(&self.dir, device.id).holds());
        }
        Ok(found)
    }

    fn check_copy(&self, device: &Device, tail: Tail, repair: bool) -> io::Result<u64> {
        let folder = device.path.join("log");
        let is_gone = fs::read_dir(&folder).map_or(true, |mut files| files.next().is_none());
        let damaged = match self.catalog.log().find_damaged_in(&folder, tail) {
            Err(error) if repair => {
                tracing::warn!(%error, "a copy of the commit log cannot be read, and is written again; check this disk");
                // The log is whole, so nothing is lost if the rest of the copy cannot be read, either.
                set_aside(&folder, &folder).map_err(io::Error::other)?;
                Vec::new()
            }
            found => found?,
        };
        if let Some(first) = damaged.first() {
            let files = damaged.len();
            tracing::warn!(files, first = %first.display(), is_written_again = repair, "a copy of the commit log is damaged; check the disk of this file");
            if !repair {
                return Ok(files as u64);
            }
            // The log is whole, so the copy is not needed while it is written.
            damaged.iter().try_for_each(fs::remove_file)?;
        }
        self.copy_log_to(device, tail, true)?;
        if is_gone && tail.sequence > 0 {
            tracing::warn!(folder = %folder.display(), "a copy of the commit log was gone, and was written again; check this disk");
        }
        Ok(0)
    }

    /// The targets that hold a copy of the log.
    pub fn log_copies(&self) -> impl Iterator<Item = &Device> {
        self.persistent_directories().take(LOG_COPIES)
    }

    fn persistent_directories(&self) -> impl Iterator<Item = &Device> {
        let is_one = |d: &&Device| self.tiers.tier(d).persistent && d.capabilities.log_copies;
        self.tiers.devices.iter().filter(is_one)
    }
}

/// Returns whether an error says that a target takes no more bytes. What it has is as good as before.
fn takes_no_more(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
    )
}
