//! Makes commits durable: first frames, then the log, then the sync mark. Also keeps copies of the log, and makes snapshots, which
//! limit its length.

mod refused;
mod replacing;
mod shared;
mod snapshot;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_catalog::log::{self, Reach, Tail};
use terrace_catalog::{Catalog, Edit};
use terrace_system::Locked;

use crate::Result;
use crate::devices::{Device, Tiers};
use crate::home::{find_remounted, refuse};

pub use replacing::sync_before_replacing;

/// The lock of the notes of how far the log is durable.
pub const NOTES_LOCK: &str = "notes";
/// Copies of the log are kept on this many persistent targets.
const LOG_COPIES: usize = 3;

/// Makes commits durable, with the frames that they name, and keeps copies of the log.
pub struct Journal {
    /// The store's directory.
    pub dir: PathBuf,
    pub catalog: Arc<Catalog>,
    pub tiers: Arc<Tiers>,
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

    /// Checks that a target was not replaced by an older copy of itself since the store was opened: what was written to it since may be in files
    /// that are gone, and its note about the log must not become newer than what it holds.
    fn check_age(&self, device: &Device) -> Result<()> {
        let is_one = self.tiers.tier(device).persistent && device.capabilities.log_copies;
        // One that is known to be new or older is compared with the catalog soon.
        if !is_one || device.target.is_new() || !self.is_older(device) {
            return Ok(());
        }
        let context = || format!("syncing {}", device.path.display());
        device.target.note_new().map_err(crate::Error::io(context()))?;
        let reason = "it was replaced by an older copy of itself while the store was in use; `terrace sync` makes again what it lacks";
        let error = io::Error::new(io::ErrorKind::NotConnected, reason);
        device.failed(&error);
        Err(crate::Error::io(context())(error))
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
            self.note_synced(synced, sequence)?;
            self.catalog.commit(Edit::Synced { sequence }.into())?;
            // The mark itself, so that a recovery finds it. If it is lost, recovery only verifies more commits.
            let tail = self.catalog.tail()?;
            self.catalog.log().sync(tail)?;
            self.copy_log(true)?;
            self.write_reach(sequence, tail);
        }
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

    /// Notes on the targets of services that they hold the frames of all commits up to `sequence`, where commits after `synced` have added
    /// some.
    fn note_synced(&self, synced: u64, sequence: u64) -> Result<()> {
        for device in self.tiers.devices.iter().filter(|device| !device.capabilities.log_copies) {
            if self.dirty_segments(device, synced)?.is_empty() {
                continue;
            }
            if let Err(error) = device.target.note_synced(sequence) {
                // An older note asks for less, and stays true.
                tracing::debug!(target = %device.path.display(), %error, "could not note on this target how far it is synced");
            }
        }
        Ok(())
    }

    /// Notes in the store's directory, and on the persistent directory targets, that the log is durable up to a commit, and to the
    /// record at `tail`.
    fn write_reach(&self, sequence: u64, tail: Tail) {
        let _turn = self.wait_to_note();
        let store = self.catalog.log().store();
        let reach = Reach { sequence, record: (tail.sequence, tail.checksum) };
        // Another process may have noted a later commit meanwhile. A note of a longer log than this one is what a rebuild has left.
        let is_in_log = |own: &Reach| self.catalog.tail().is_ok_and(|tail| own.record.0 <= tail.sequence);
        if log::read_reach(&self.dir, store).is_some_and(|own| own.sequence > sequence && is_in_log(&own)) {
            return;
        }
        // Never write to a directory that is not the target, such as a mount point.
        let there = self.persistent_directories().filter(|device| device.target.ready().is_ok());
        let there = there.filter(|device| self.has_this_log(device) && !self.seems_older(device));
        let there: Vec<&Device> = there.collect();
        // The errors may be ignored: an older note asks for less, and stays true.
        let is_noted = |folder: &Path| {
            let noted = log::write_reach(folder, store, reach);
            noted.inspect_err(|error| {
                tracing::debug!(folder = %folder.display(), %error, "could not note how far the log is durable")
            })
        };
        // The directory's own note first: if a target's is later, the directory is an older copy.
        let _ = is_noted(&self.dir);
        for device in there {
            // What is known of the target comes last: if it is later than the target's own note, the target is an older copy.
            if is_noted(&device.path).is_ok() {
                let _ = log::write_target_reach(&self.dir, device.id, store, reach);
            }
        }
    }

    /// Returns the targets that are older copies of themselves, such as a disk that was restored from a backup: the last note about the log
    /// that was written on them is not there.
    pub fn older_targets(&self) -> impl Iterator<Item = &Device> {
        self.persistent_directories().filter(|device| self.is_older(device))
    }

    /// Waits until no process writes these notes, and keeps others from it until the result is dropped. Without it, the notes of one process
    /// could mix with older ones of another, and a target that is as it should be would seem older.
    fn wait_to_note(&self) -> Option<Locked> {
        let lock = File::options().create(true).truncate(false).write(true).open(self.dir.join(NOTES_LOCK));
        // Without the lock, notes may at worst have to be compared with the catalog.
        lock.and_then(Locked::wait)
            .inspect_err(|error| tracing::debug!(%error, "notes are written without a lock"))
            .ok()
    }

    fn is_older(&self, device: &Device) -> bool {
        self.seems_older(device) && {
            // Another process may have been writing them.
            let _turn = self.wait_to_note();
            self.seems_older(device)
        }
    }

    fn seems_older(&self, device: &Device) -> bool {
        let store = self.catalog.log().store();
        let Some(known) = log::read_target_reach(&self.dir, device.id, store) else { return false };
        let theirs = log::read_reach(&device.path, store);
        theirs.is_none_or(|theirs| theirs.sequence < known.sequence) && device.target.look().is_ok()
    }

    /// Returns the targets whose own notes name an earlier commit than one that has added frames to them and was synced since. Where the
    /// store's directory was restored from an older copy, too, its notes do not tell. Reads the records of all segments.
    pub fn targets_behind(&self) -> Result<Vec<&Device>> {
        let (store, synced) = (self.catalog.log().store(), self.catalog.synced()?);
        let mut behind = Vec::new();
        for device in self.tiers.devices.iter().filter(|device| self.tiers.tier(device).persistent) {
            let theirs = match device.capabilities.log_copies {
                true => log::read_reach(&device.path, store).map(|reach| reach.sequence),
                // One that is away is compared when it is back.
                false => device.target.synced_to().ok().flatten(),
            };
            let is_behind = |theirs: u64| -> Result<bool> {
                let segments = self.catalog.segments(device.id)?;
                Ok(segments
                    .iter()
                    .any(|(_, live)| live.frames > 0 && live.sequence > theirs && live.sequence <= synced))
            };
            if theirs.map_or(Ok(false), is_behind)? {
                behind.push(device);
            }
        }
        Ok(behind)
    }

    /// Notes that a target is as it should be now, whatever was known of it before.
    pub fn trust_target(&self, device: &Device) {
        let store = self.catalog.log().store();
        let Some(known) = log::read_target_reach(&self.dir, device.id, store) else { return };
        // The error may be ignored: the target is only compared once more.
        if let Err(error) = log::write_reach(&device.path, store, known) {
            tracing::debug!(target = %device.path.display(), %error, "could not note how far the log is durable");
        }
    }

    /// Returns whether a target has seen this log, and no other: it may have been used with a newer copy of the store's directory. Then it
    /// is set aside, with what it holds.
    fn has_this_log(&self, device: &Device) -> bool {
        let (log, note) = (self.catalog.log(), |folder: &Path| log::read_reach(folder, self.catalog.log().store()));
        let Some(theirs) = note(&device.path) else { return true };
        if note(&self.dir).is_some_and(|own| own.record == theirs.record) {
            return true;
        }
        let failed = |reason: String| device.failed(&io::Error::new(io::ErrorKind::NotConnected, reason));
        match log.continues(theirs.record) {
            Ok(true) => true,
            Ok(false) => {
                failed(
                    "it was used with a newer copy of the store's directory; close the store, and open it again".into(),
                );
                false
            }
            Err(error) => {
                failed(error.to_string());
                false
            }
        }
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

    /// The targets that hold a copy of the log.
    pub fn log_copies(&self) -> impl Iterator<Item = &Device> {
        self.persistent_directories().take(LOG_COPIES)
    }

    fn persistent_directories(&self) -> impl Iterator<Item = &Device> {
        let is_one = |d: &&Device| self.tiers.tier(d).persistent && d.capabilities.log_copies;
        self.tiers.devices.iter().filter(is_one)
    }
}
