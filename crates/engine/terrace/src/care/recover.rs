//! Makes the catalog match the targets when a store is opened.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io;

use terrace_catalog::{Change, Edit, Extent, Replica, Task, frames};
use terrace_format::frame::{Header, MAX_HEADER};
use terrace_format::key;
use terrace_tier::Place;

use super::Care;
use super::frame_id::{FrameId, frame_in};
use super::rebuild::replay;
use super::survey::{describe_older_directory, describe_parted};
use crate::devices::Device;
use crate::home::{TargetNote, boot, skip_numbers};
use crate::origins::is_at_origin;
use crate::read::{is_changed_by_owner, means_bad_replica, task_of};
use crate::report::Lacking;
use crate::{Error, Result};

/// The approximate number of edits in one commit.
pub(super) const EDITS_PER_COMMIT: usize = 1024;

/// A target that was created empty. Processes that had the store open may have written to it since.
struct Emptied<'a> {
    device: &'a Device,
    /// The frames that a service lists. None for a directory, which is asked for each frame.
    left: Option<HashSet<Place>>,
    /// The last commit before they were listed. Frames of later ones may be there and not be listed.
    listed_at: u64,
}

impl Emptied<'_> {
    /// Lists the frames of a service. None if the listing fails: the target then stays noted as empty.
    fn list(device: &Device, listed_at: u64) -> Option<Emptied<'_>> {
        if !device.capabilities.remote {
            return Some(Emptied { device, left: None, listed_at });
        }
        let mut left = HashSet::new();
        let scanned = device.target.scan(&mut |place, _| {
            left.insert(place);
        });
        match scanned {
            Ok(()) => Some(Emptied { device, left: Some(left), listed_at }),
            Err(error) => {
                device.failed(&error);
                None
            }
        }
    }
}

impl Care {
    /// Makes the catalog match the targets. Fills a new catalog, marks the replicas on emptied targets as pending (a reboot
    /// empties memory), and corrects the names of plain files, which are not synced. The boot mark says when this is due and
    /// when it is done, so the next opener repeats it if the process dies in between.
    pub fn recover(&self) -> Result<()> {
        self.doubt(self.journal.older_targets())?;
        let is_due = || -> Result<bool> {
            let is_pending = boot::read_mark(&self.journal.dir)?.is_pending();
            Ok(is_pending
                || self.catalog.is_new()?
                || self.emptied().next().is_some()
                || self.names_due().next().is_some())
        };
        if !is_due()? {
            return Ok(());
        }
        let _lock = self.locks.wait_for_mover()?;
        // Another process may have done it while this one waited for the lock.
        let is_pending = boot::read_mark(&self.journal.dir)?.is_pending();
        let is_new = self.catalog.is_new()?;
        let doubts = if is_new { replay(self)? } else { HashSet::new() };
        if is_new {
            match self.catalog.tail()?.sequence {
                0 => self.begin_after_what_is_there()?,
                // The log may be that of an older copy of the directory, and others may have gone on from it.
                _ => skip_numbers(&self.catalog)?,
            }
        }
        self.check_is_newest(is_new)?;
        if is_new && !self.catalog.is_shared() {
            self.doubt(self.journal.targets_behind()?)?;
        }
        terrace_system::fail::point("recover:replayed");
        self.owe_what_is_gone(&doubts, is_pending)?;
        terrace_system::fail::point("recover:owed");
        if is_new && !self.catalog.is_shared() {
            self.journal.raise_notes()?;
            self.note_lacking()?;
        }
        self.name_again(is_pending || is_new)?;
        terrace_system::fail::point("recover:named");
        if is_pending { boot::mark_in_use(&self.journal.dir) } else { Ok(()) }
    }

    /// Makes a catalog ready for a salvage: fills a new one from the damaged log, and continues in a file of the log from commit `sequence` on.
    pub fn leave_log(&self, sequence: u64) -> Result<()> {
        let _lock = self.locks.wait_for_mover()?;
        // A salvage looks through all targets.
        self.journal.older_targets().for_each(|device| self.journal.trust_target(device));
        let doubts = if self.catalog.is_new()? { replay(self)? } else { HashSet::new() };
        // The damaged log and its copies stay as they are, so that a salvage that is stopped can be repeated, and a copy that comes back
        // may still be the whole one.
        self.catalog.jump_to(sequence.max(self.catalog.tail()?.sequence))?;
        self.owe_what_is_gone(&doubts, boot::read_mark(&self.journal.dir)?.is_pending())
    }

    /// Notes that targets are older copies of themselves, and may lack frames. They are then compared with the catalog as new ones are.
    fn doubt<'a>(&self, older: impl IntoIterator<Item = &'a Device>) -> Result<()> {
        for device in older.into_iter().filter(|device| !device.target.is_new()) {
            tracing::warn!(
                target = %device.path.display(),
                "this target is an older copy of itself, such as a restored backup or what a power cut left; what it lacks will be made again from other replicas, and what no commit names any more is given back"
            );
            device.target.note_new().map_err(Error::io(format!("noting that {} is older", device.path.display())))?;
        }
        Ok(())
    }

    /// Checks that no service was used with a newer copy of the store's directory: the ones to be compared with the catalog or, if it is new, all
    /// that can be reached. It comes before commits, which would part from those of the newer directory.
    fn check_is_newest(&self, is_new: bool) -> Result<()> {
        if self.catalog.is_shared() {
            // Its catalog follows the servers.
            return Ok(());
        }
        let last = self.catalog.tail()?.sequence;
        let services = self.tiers.devices.iter().filter(|device| {
            self.tiers.tier(device).persistent && !device.capabilities.log_copies && (is_new || device.target.is_new())
        });
        for device in services {
            let theirs = match device.target.synced_to() {
                Ok(Some(theirs)) => theirs,
                Ok(None) => continue,
                Err(_) => {
                    if is_new && device.target.named_blobs().is_some() {
                        // It is compared when it is back: this log may be another one than it knows.
                        device
                            .target
                            .note_new()
                            .map_err(Error::io(format!("noting that {} is older", device.path.display())))?;
                    }
                    continue;
                }
            };
            let error = match theirs.sequence > last {
                true => describe_older_directory(&device.path),
                false if self.catalog.log().continues(theirs.record)? => continue,
                false => describe_parted(&device.path),
            };
            // From now on, no process opens the store before it is rebuilt.
            TargetNote::is_newer(&self.journal.dir, device.id).set(true)?;
            return Err(error);
        }
        Ok(())
    }

    /// Returns the targets that were found empty, and whose lost replicas are not yet marked as pending.
    fn emptied(&self) -> impl Iterator<Item = &Device> {
        self.tiers.devices.iter().filter(|device| self.tiers.is_tended(device) && device.target.is_new())
    }

    /// Checks all targets, even those that are known to be away, and marks the replicas on emptied ones as pending. Returns
    /// an error if a persistent target was emptied or replaced.
    pub fn check_targets(&self) -> Result<Option<Error>> {
        let mut missing = None;
        for device in &self.tiers.devices {
            let Err(error) = device.target.check_again() else { continue };
            device.failed(&error);
            // These errors mean that the target was replaced. With any other error it may still have all its data.
            let is_another = matches!(
                error.kind(),
                io::ErrorKind::NotConnected | io::ErrorKind::AlreadyExists | io::ErrorKind::ResourceBusy
            );
            if is_another && self.tiers.tier(device).persistent {
                missing = missing.or(Some(Error::io(format!("looking at {}", device.path.display()))(error)));
            }
        }
        self.doubt(self.journal.older_targets())?;
        if self.emptied().next().is_some() {
            let _lock = self.locks.wait_for_mover()?;
            self.check_is_newest(false)?;
            self.owe_what_is_gone(&HashSet::new(), false)?;
            self.name_again(false)?;
        }
        Ok(missing)
    }

    /// Marks the replicas as pending that are not on their targets: services list what they hold, and others are asked for each frame.
    pub fn owe_all_gone(&self) -> Result<()> {
        let _lock = self.locks.wait_for_mover()?;
        let last = self.catalog.tail()?.sequence;
        // Of a service that cannot list, such as Redis, only the lost directory knew what it holds: it is asked for each frame.
        let listing = self.tiers.devices.iter().filter(|device| device.target.named_blobs().is_some());
        let listed: Vec<Emptied<'_>> = listing.filter_map(|device| Emptied::list(device, last)).collect();
        self.owe_again(|object, extent, replica| {
            let left =
                listed.iter().find(|listed| listed.device.id == replica.target).and_then(|listed| listed.left.as_ref());
            left.map_or_else(|| !self.has_frame(object, extent, replica), |left| !left.contains(&replica.place))
        })
    }

    /// Notes the extents that have fewer replicas than they are to have. The record of scrubs, which has them, may be gone, or that of an older
    /// copy of the directory.
    fn note_lacking(&self) -> Result<()> {
        let mut lacking = Lacking::default();
        self.catalog.each_object(b"", |_, object, extents| {
            for extent in frames(extents).filter(|extent| extent.replicas.len() < object.want.into()) {
                lacking += Lacking::of(self.mover.targets_of(object.id, extent)?.len(), object.want.into());
            }
            Ok::<_, Error>(true)
        })?;
        self.mover.count_lacking(lacking);
        Ok(())
    }

    /// Marks missing replicas as pending: those on emptied targets, and those of the `doubts`. After a restart of the
    /// machine it also checks the replicas on volatile directories, whose files may exist and be empty.
    fn owe_what_is_gone(&self, doubts: &HashSet<FrameId>, is_restarted: bool) -> Result<()> {
        let last = self.catalog.tail()?.sequence;
        let emptied: Vec<Emptied<'_>> = self.emptied().filter_map(|device| Emptied::list(device, last)).collect();
        let is_volatile =
            |device: &&Device| is_restarted && !device.capabilities.remote && !self.tiers.tier(device).persistent;
        let volatile: Vec<&Device> = self.tiers.devices.iter().filter(is_volatile).collect();
        let on_volatile = |replica: &Replica| volatile.iter().any(|device| device.id == replica.target);
        let on_emptied = |replica: &Replica| emptied.iter().find(|emptied| emptied.device.id == replica.target);
        let is_due = !doubts.is_empty()
            || self.held_something(emptied.iter().map(|emptied| emptied.device))?
            || self.held_something(volatile.iter().copied())?;
        if is_due {
            self.owe_again(|object, extent, replica| {
                let is_gone = || !self.has_frame(object, extent, replica);
                let is_gone_from = |emptied: &Emptied<'_>| match &emptied.left {
                    // Asking a service for each frame is slow. So only frames that have no replica elsewhere are asked for.
                    Some(left) if left.contains(&replica.place) => false,
                    Some(_) if self.is_newer(replica, emptied.listed_at) => is_gone(),
                    Some(_) => extent.replicas.iter().any(|other| on_emptied(other).is_none()) || is_gone(),
                    None => is_gone(),
                };
                on_emptied(replica).is_some_and(is_gone_from)
                    || on_volatile(replica) && is_gone()
                    || doubts.contains(&frame_in(object, extent)) && !self.holds(object, extent, replica)
            })?;
        }
        if !emptied.is_empty() && !self.catalog.is_shared() {
            // Before what tells that these targets were compared: if a power cut took the commits but not this, gone replicas would
            // count as there again.
            self.catalog.log().sync(self.catalog.tail()?)?;
        }
        for Emptied { device, .. } in emptied {
            // Before the notes by which it is known as older or newer.
            self.note_sweep(device)?;
            self.journal.trust_target(device);
            if let Err(error) = device.target.forget_new() {
                tracing::warn!(target = %device.path.display(), %error, "the note that this target was empty could not be removed; the next opening of the store checks the target again");
            }
        }
        Ok(())
    }

    /// Reads the frames that commits after `synced` have named on a target of this node, whose machine may have lost power. Those that
    /// are gone become pending.
    ///
    /// # Errors
    /// If the target does not answer, so that it is not known whether frames are gone.
    pub fn owe_unsynced(&self, device: &Device, synced: u64) -> Result<()> {
        let segments = self.catalog.segments(device.id)?;
        if segments.iter().all(|(_, live)| live.frames == 0 || live.sequence <= synced) {
            return Ok(());
        }
        let trouble = RefCell::new(None);
        self.owe_again(|object, extent, replica| {
            if replica.target != device.id || trouble.borrow().is_some() || !self.is_newer(replica, synced) {
                return false;
            }
            let mut raw = vec![0; extent.raw_len as usize];
            match self.reader.read_replica(device, object, extent, replica, 0, &mut raw) {
                Ok(()) => false,
                Err(error) if means_bad_replica(&error) => true,
                Err(error) => {
                    *trouble.borrow_mut() = Some(error);
                    false
                }
            }
        })?;
        match trouble.into_inner() {
            Some(error) => Err(Error::io(format!("reading {}", device.path.display()))(error)),
            None => Ok(()),
        }
    }

    /// Returns whether a commit after `sequence` may have named the frame of a replica.
    fn is_newer(&self, replica: &Replica, sequence: u64) -> bool {
        let known = self.catalog.segment(replica.target, replica.place.segment);
        // If it cannot be read, the frame is asked for.
        known.map_or(true, |segment| segment.is_some_and(|live| live.sequence > sequence))
    }

    fn held_something<'a>(&self, mut devices: impl Iterator<Item = &'a Device>) -> Result<bool> {
        devices.try_fold(false, |held, device| Ok(held || !self.catalog.segments(device.id)?.is_empty()))
    }

    /// Returns whether a replica's header and last byte exist. The payload is not verified, because reading a whole tier
    /// takes long, and each read verifies it. A replica on an unreachable device counts as existing.
    pub(super) fn has_frame(&self, object: u64, extent: &Extent, replica: &Replica) -> bool {
        let Ok(device) = self.tiers.device(replica.target) else { return false };
        let place = replica.place;
        let mut head = [0; MAX_HEADER];
        let head = &mut head[..MAX_HEADER.min(place.length as usize)];
        let read =
            device.read(place, 0, head).and_then(|()| device.read(place, place.length.saturating_sub(1), &mut [0]));
        match read {
            Ok(()) => Header::read(head, self.catalog.log().store(), place).is_ok_and(|header| {
                let id = header.identity;
                (id.object, (id.write, id.offset)) == frame_in(object, extent)
            }),
            Err(error) => !means_bad_replica(&error),
        }
    }

    pub(super) fn holds(&self, object: u64, extent: &Extent, replica: &Replica) -> bool {
        self.find(object, extent, replica).is_ok_and(|is_held| is_held)
    }

    /// Reads a replica, and returns whether it is good.
    ///
    /// # Errors
    /// If its target does not answer.
    pub(super) fn find(&self, object: u64, extent: &Extent, replica: &Replica) -> io::Result<bool> {
        match self.read(object, extent, replica) {
            Err(error) if !means_bad_replica(&error) => Err(error),
            // The adoption is valid. A power cut has not undone it.
            Err(error) if is_changed_by_owner(&error) => Ok(true),
            read => Ok(read.is_ok()),
        }
    }

    /// Like [`Care::holds`], but false for a replica in an adopted file that does not have the adopted bytes any more.
    pub(super) fn has_bytes(&self, object: u64, extent: &Extent, replica: &Replica) -> bool {
        self.read(object, extent, replica).is_ok()
    }

    fn read(&self, object: u64, extent: &Extent, replica: &Replica) -> io::Result<()> {
        let device = self.tiers.device(replica.target).map_err(|_| io::ErrorKind::NotFound)?;
        let mut raw = vec![0; extent.raw_len as usize];
        self.reader.read_replica(device, object, extent, replica, 0, &mut raw)
    }

    /// Like `has_frame`, for a frame whose length only its header tells.
    pub(super) fn holds_frame(&self, (object, (write, offset)): FrameId, replica: &Replica) -> bool {
        let Ok(device) = self.tiers.device(replica.target) else { return false };
        let mut bytes = vec![0; replica.place.length as usize];
        if device.read(replica.place, 0, &mut bytes).is_err() {
            return false;
        }
        Header::read(&bytes, self.catalog.log().store(), replica.place).is_ok_and(|header| {
            let raw_len = header.raw_len;
            let replicas = Default::default();
            let extent = Extent { offset, length: raw_len, skip: 0, raw_len, write, replicas, source: None };
            self.holds(object, &extent, replica)
        })
    }

    /// Commits edits, and takes them, if there are at least `count`.
    pub(super) fn commit_from(&self, count: usize, edits: &mut Vec<Edit>) -> Result<()> {
        if edits.len() >= count {
            self.catalog.commit(Change { expect: Vec::new(), edits: std::mem::take(edits) })?;
        }
        Ok(())
    }

    /// Removes missing replicas from their extents, and marks them as pending. An extent without any other replica keeps its
    /// record, so that reads and scrubs report the loss, and a warning is logged.
    fn owe_again(&self, gone: impl Fn(u64, &Extent, &Replica) -> bool) -> Result<()> {
        let (mut edits, mut objects_lost, mut first_lost) = (Vec::new(), 0, None);
        self.catalog.each_object(b"", |key, object, extents| {
            let mut is_lost = false;
            for extent in frames(extents) {
                let (lost, left): (Vec<&Replica>, Vec<&Replica>) =
                    extent.replicas.iter().partition(|replica| gone(object.id, extent, replica));
                let Some(first) = lost.first() else { continue };
                if left.is_empty() && is_at_origin(object) {
                    // It can be fetched again.
                    edits.extend(self.mover.uncache_frame(key, object, extent)?);
                    continue;
                }
                if left.is_empty() {
                    is_lost = true;
                    let task = task_of(object.id, extent, first);
                    let owed = self.catalog.owed_to(&task)?.into_iter();
                    edits.extend(owed.map(|target| Edit::Forgive { task: Task { target, ..task } }));
                    continue;
                }
                edits.extend(lost.iter().map(|replica| Edit::Lost {
                    task: task_of(object.id, extent, replica),
                    key: serde_bytes::ByteBuf::from(key),
                    place: replica.place,
                    owed: Some(replica.target),
                }));
            }
            if is_lost {
                self.reader.lost.note(key, object);
                objects_lost += 1;
                first_lost.get_or_insert_with(|| key::show(key));
            }
            self.commit_from(EDITS_PER_COMMIT, &mut edits)?;
            Ok::<_, Error>(true)
        })?;
        self.commit_from(1, &mut edits)?;
        if let Some(first) = first_lost {
            self.reader.lost.sync();
            tracing::warn!(
                objects = objects_lost,
                first,
                "bytes of objects are lost, because their only replicas were on targets that are now empty; `terrace scrub` lists these objects"
            );
        }
        Ok(())
    }
}
