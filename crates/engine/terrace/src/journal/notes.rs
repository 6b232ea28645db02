//! The notes of how far the log and the frames are durable, in the store's directory and on its targets. They tell targets and
//! directories that are older copies of themselves.

use std::fs::File;
use std::io;
use std::path::Path;

use terrace_catalog::log::{self, Reach, Tail};
use terrace_system::Locked;

use super::Journal;
use crate::Result;
use crate::devices::Device;

/// The lock of the notes.
pub const NOTES_LOCK: &str = "notes";

impl Journal {
    /// Notes in the store's directory, and on the persistent directory targets, that the log is durable up to a commit, and to the
    /// record at `tail`.
    pub(super) fn write_reach(&self, sequence: u64, tail: Tail) {
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

    /// Raises the notes once a new catalog was compared with the targets: the directory may be an older copy, and what it knows of the
    /// targets with it. Of a target that is away, it then knows the last synced commit that has added frames to it.
    ///
    /// # Errors
    /// If the log cannot be synced, or the catalog cannot be read.
    pub fn raise_notes(&self) -> Result<()> {
        let (store, synced, tail) = (self.catalog.log().store(), self.catalog.synced()?, self.catalog.tail()?);
        if synced == 0 {
            return Ok(());
        }
        // The notes name this record, which must be durable then.
        self.catalog.log().sync(tail)?;
        self.write_reach(synced, tail);
        for device in self.persistent_directories() {
            let segments = self.catalog.segments(device.id)?;
            let with_frames = segments.iter().filter(|(_, live)| live.frames > 0 && live.sequence <= synced);
            let held = with_frames.map(|(_, live)| live.sequence).max().unwrap_or(0);
            if log::read_target_reach(&self.dir, device.id, store).is_none_or(|known| known.sequence < held) {
                let reach = Reach { sequence: held, record: (tail.sequence, tail.checksum) };
                // The error may be ignored: the target is only trusted as before.
                let noted = log::write_target_reach(&self.dir, device.id, store, reach);
                let _ = noted.inspect_err(|error| tracing::debug!(%error, "could not note what a target holds"));
            }
        }
        Ok(())
    }

    /// Notes on the targets of services that they hold the frames of all commits up to `reach.sequence`, where commits after `synced` have added
    /// some. Those that hold a copy of the log get their note with its next piece.
    pub(super) fn note_synced(&self, synced: u64, reach: Reach) -> Result<()> {
        for device in self.tiers.devices.iter().filter(|device| !device.capabilities.log_copies) {
            if self.has_pieces(device) || self.dirty_segments(device, synced)?.is_empty() {
                continue;
            }
            if let Err(error) = device.target.note_synced(reach) {
                // An older note asks for less, and stays true.
                tracing::debug!(target = %device.path.display(), %error, "could not note on this target how far it is synced");
            }
        }
        Ok(())
    }

    /// Returns the targets that are older copies of themselves, such as a disk that was restored from a backup: the last note about the log
    /// that was written on them is not there.
    pub fn older_targets(&self) -> impl Iterator<Item = &Device> {
        self.persistent_directories().filter(|device| self.is_older(device))
    }

    /// Returns the targets whose own notes name an earlier commit than one that has added frames to them and was synced since. Where the
    /// store's directory was restored from an older copy, too, its notes do not tell. Reads the records of all segments.
    pub fn targets_behind(&self) -> Result<Vec<&Device>> {
        let (store, synced) = (self.catalog.log().store(), self.catalog.synced()?);
        let mut behind = Vec::new();
        for device in self.tiers.devices.iter().filter(|device| self.tiers.tier(device).persistent) {
            let theirs = match device.capabilities.log_copies {
                true => log::read_reach(&device.path, store).map(|reach| reach.sequence),
                // One that is away is compared when it is back. One without a note lacks what was noted there with its frames.
                false => device.target.synced_to().ok().map(|reach| reach.map_or(0, |reach| reach.sequence)),
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

    /// Checks that a target was not replaced by an older copy of itself since the store was opened: what was written to it since may be in files
    /// that are gone, and its note about the log must not become newer than what it holds.
    pub(super) fn check_age(&self, device: &Device) -> Result<()> {
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

    /// Notes that a target is as it should be now, whatever was known of it before.
    pub fn trust_target(&self, device: &Device) {
        self.forget_copied(device);
        let store = self.catalog.log().store();
        let Some(known) = log::read_target_reach(&self.dir, device.id, store) else { return };
        if matches!(self.catalog.log().continues(known.record), Ok(false)) {
            // It is about a log that somebody has given up. The next mark notes what is true of this one. If one of them stays, the target is
            // set aside.
            let _ = log::remove_reach(&device.path).and_then(|()| log::remove_target_reach(&self.dir, device.id));
            return;
        }
        // The error may be ignored: the target is only compared once more.
        if let Err(error) = log::write_reach(&device.path, store, known) {
            tracing::debug!(target = %device.path.display(), %error, "could not note how far the log is durable");
        }
    }

    /// Returns whether a target has seen this log, and no other: it may have been used with a newer copy of the store's directory. Then it
    /// is set aside, with what it holds.
    pub(super) fn has_this_log(&self, device: &Device) -> bool {
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
        theirs.is_none_or(|theirs| theirs.sequence < known.sequence) && device.target.check_again().is_ok()
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
}
