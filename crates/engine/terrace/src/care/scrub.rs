//! Scrub and repair: reads every replica, and replaces bad or missing ones.

use std::collections::HashMap;
use std::io;

use terrace_catalog::{Change, Edit, Extent, Object, Task, frames};
use terrace_format::key::show;

use super::Care;
use super::unreplaced::{BadReplica, MAX_LISTED_REPLICAS};
use crate::devices::Device;
use crate::mover::Repair;
use crate::origins::is_at_origin;
use crate::read::{Suspect, bad, is_changed_by_owner, task_of};
use crate::report::{Scrubbed, TierState};
use crate::{Error, Result};

/// The objects to scrub: part `part` of `of`, chosen by key.
#[derive(Clone, Copy, Debug)]
struct Subset {
    part: u64,
    of: u64,
}

/// The result of scrubbing a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameState {
    Good,
    Lost,
    /// Its replicas are on targets that are away or in adopted files that their owners have changed, or its object has changed meanwhile.
    Unknown,
}

/// The result of a scrub.
pub(crate) struct ScrubOutcome {
    pub found: Scrubbed,
    /// The bad replicas that were not replaced; of many, some.
    pub unreplaced: Vec<BadReplica>,
    /// Whether the scrub reached its end.
    pub is_whole: bool,
}

/// The shared frames that were read.
type Shared = HashMap<Task, FrameState>;

/// A scrub that is in progress.
struct Round {
    repair: bool,
    found: Scrubbed,
    unreplaced: Vec<BadReplica>,
    shared: Shared,
    /// The objects that have lost bytes, with their numbers and generations.
    lost: Vec<(Vec<u8>, (u64, u64))>,
}

fn count_lost(key: &[u8], found: &mut Scrubbed) {
    found.lost += 1;
    *found.lost_of.entry(show(key)).or_default() += 1;
}

/// Returns whether the error of a read says nothing about a replica, because its target cannot be asked, or another one is in its place.
fn is_out_of_reach(device: &Device, error: &io::Error) -> bool {
    use io::ErrorKind::*;
    match error.kind() {
        NotConnected | TimedOut | ConnectionRefused | ConnectionReset | ConnectionAborted | HostUnreachable
        | NetworkUnreachable | AlreadyExists | ResourceBusy => true,
        // A sector that cannot be read is damage, unless all of the target fails.
        _ => !bad(error) && device.target.look().is_err(),
    }
}

impl Care {
    /// Reads and verifies every replica of every object at or below `prefix`; with `repair`, replaces bad and missing
    /// ones. `subset` is `(n, t)`: only the n-th (from 1) of t parts, by key. `progress` is called after each extent with the
    /// replicas checked so far, and ends the scrub by returning false.
    pub fn scrub(
        &self,
        prefix: &[u8],
        repair: bool,
        subset: Option<(u64, u64)>,
        progress: &mut dyn FnMut(&Scrubbed) -> bool,
    ) -> Result<ScrubOutcome> {
        self.look_at_targets()?;
        let subset = subset.map(|(part, of)| Subset { part, of: of.max(1) });
        let (found, unreplaced) = (Scrubbed::default(), Vec::new());
        let mut round = Round { repair, found, unreplaced, shared: Shared::new(), lost: Vec::new() };
        let mut go_on = true;
        self.catalog.each_object(prefix, |key, object, extents| {
            if subset.is_none_or(|s| xxhash_rust::xxh3::xxh3_64(key) % s.of + 1 == s.part) {
                go_on = self.scrub_object(key, object, extents, &mut round, progress)?;
            }
            Ok::<_, Error>(go_on)
        })?;
        if go_on && prefix.is_empty() && subset.is_none() && round.found.away == 0 {
            self.reader.lost.replace(&round.lost);
        }
        // Of all parts of the store, with the first one.
        if go_on && prefix.is_empty() && subset.is_none_or(|subset| subset.part == 1) {
            round.found.miscounted = self.check_owners()?;
            round.found.log_damaged = self.check_log()?;
        }
        Ok(ScrubOutcome { found: round.found, unreplaced: round.unreplaced, is_whole: go_on })
    }

    /// Scrubs an object. Returns false if `progress` did.
    #[allow(clippy::too_many_arguments)]
    fn scrub_object(
        &self,
        key: &[u8],
        object: &Object,
        extents: &[Extent],
        round: &mut Round,
        progress: &mut dyn FnMut(&Scrubbed) -> bool,
    ) -> Result<bool> {
        let Round { repair, found, unreplaced, shared, lost } = round;
        let (repair, mut is_lost, mut is_good) = (*repair, false, true);
        if self.planning.rules.now().has_plain() {
            self.scrub_names(key, object, extents, repair, found, unreplaced)?;
        }
        for extent in frames(extents) {
            let name = extent.task(object.id, 0);
            // It may have been read for another owner.
            let state = match shared.get(&name) {
                None => {
                    let state = self.scrub_extent(key, object, extent, repair, found, unreplaced)?;
                    if extent.source.is_some() {
                        shared.insert(name, state);
                    }
                    state
                }
                // To all of them.
                Some(FrameState::Lost) => {
                    count_lost(key, found);
                    FrameState::Lost
                }
                // This owner may want more replicas than those before.
                Some(state) => {
                    found.one_copy += u64::from(self.has_one_copy(key, object, extent, repair)?);
                    *state
                }
            };
            is_lost |= state == FrameState::Lost;
            is_good &= state == FrameState::Good;
            if !progress(found) {
                return Ok(false);
            }
        }
        unreplaced.truncate(MAX_LISTED_REPLICAS);
        if is_lost {
            self.reader.lost.note(key, object);
            lost.push((key.to_vec(), (object.id, object.generation)));
        } else if is_good {
            self.reader.has_read_all(key, object);
        }
        Ok(true)
    }

    /// Scrubs a frame.
    fn scrub_extent(
        &self,
        key: &[u8],
        object: &Object,
        extent: &Extent,
        repair: bool,
        found: &mut Scrubbed,
        unreplaced: &mut Vec<BadReplica>,
    ) -> Result<FrameState> {
        let (mut suspects, mut changed) = (Vec::new(), Vec::new());
        let (mut good, mut away) = (0, 0);
        for replica in &extent.replicas {
            let device = self.tiers.device(replica.target)?;
            // Each look at a node that hangs takes its time.
            if device.capabilities.remote && device.state() == TierState::Away {
                away += 1;
                continue;
            }
            let mut raw = vec![0; extent.raw_len as usize];
            let read = self.reader.read_replica(device, object.id, extent, replica, 0, &mut raw);
            if let Err(e) = &read {
                device.failed(e);
            }
            if matches!(&read, Err(e) if is_out_of_reach(device, e)) {
                away += 1;
                continue;
            }
            found.checked += 1;
            match read {
                Ok(()) => good += 1,
                Err(e) if is_changed_by_owner(&e) => {
                    let task = task_of(object.id, extent, replica);
                    if self.still_named(key, &task, extent)? {
                        found.changed += 1;
                        changed.push(Suspect { key: key.to_vec(), task, replica: *replica });
                    }
                }
                Err(e) => {
                    let task = task_of(object.id, extent, replica);
                    if self.still_named(key, &task, extent)? {
                        found.bad += 1;
                        unreplaced.push(BadReplica { key: key.to_vec(), task, place: replica.place });
                        if bad(&e) {
                            suspects.push(Suspect { key: key.to_vec(), task, replica: *replica });
                        }
                    }
                }
            }
        }
        found.away += away;
        if good == 0 && (away > 0 || !changed.is_empty()) {
            return Ok(FrameState::Unknown);
        }
        if good == 0 {
            if self.still_named(key, &extent.task(object.id, 0), extent)? {
                if is_at_origin(object) {
                    return self.uncache_bad(key, object, extent, repair, found, unreplaced);
                }
                count_lost(key, found);
                return Ok(FrameState::Lost);
            }
            return Ok(FrameState::Unknown);
        }
        if repair {
            for suspect in &suspects {
                if self.mover.repair(suspect)? != Repair::Impossible {
                    found.repaired += 1;
                    unreplaced.retain(|bad| (bad.task, bad.place) != (suspect.task, suspect.replica.place));
                }
            }
            // The object keeps the bytes that were adopted, in a file of the store's own.
            for suspect in &changed {
                found.changed -= u64::from(self.mover.repair(suspect)? != Repair::Impossible);
            }
        }
        found.one_copy += u64::from(self.has_one_copy(key, object, extent, repair)?);
        Ok(FrameState::Good)
    }

    /// Drops a bad frame whose bytes are at an origin: they are fetched again when they are read.
    fn uncache_bad(
        &self,
        key: &[u8],
        object: &Object,
        extent: &Extent,
        repair: bool,
        found: &mut Scrubbed,
        unreplaced: &mut Vec<BadReplica>,
    ) -> Result<FrameState> {
        if repair {
            let edits = self.mover.uncache_frame(key, object, extent)?;
            self.catalog.commit(Change { expect: Vec::new(), edits })?;
            found.repaired += extent.replicas.len() as u64;
            unreplaced.retain(|bad| bad.task != extent.task(object.id, bad.task.target));
        }
        Ok(FrameState::Unknown)
    }

    /// Compares the number of owners of each shared frame with the objects that name it, and returns how many differ. A wrong
    /// number would free a frame too early, or never.
    fn check_owners(&self) -> Result<u64> {
        let wrong = self.catalog.miscounted_frames()?;
        if let Some(first) = wrong.first() {
            tracing::error!(
                frames = wrong.len(),
                object = first.name.object,
                recorded = first.recorded,
                counted = first.counted,
                "shared frames have a wrong number of owners; `terrace rebuild` counts them again"
            );
        }
        Ok(wrong.len() as u64)
    }

    /// Reads the commit log, and returns how many of its files are damaged. The catalog has what they say, until it is lost.
    fn check_log(&self) -> Result<u64> {
        if self.catalog.is_shared() {
            // Its servers keep it.
            return Ok(0);
        }
        let log = self.catalog.log();
        let damaged = log.find_damaged(self.catalog.tail()?)?;
        if let Some(first) = damaged.first() {
            tracing::error!(
                files = damaged.len(),
                first = %first.display(),
                "the commit log is damaged; `terrace rebuild` makes it whole from its copies and the catalog"
            );
        }
        Ok(damaged.len() as u64)
    }

    /// Counts plain files that are not at the object's key, because another program put a file there.
    fn scrub_names(
        &self,
        key: &[u8],
        object: &Object,
        extents: &[Extent],
        repair: bool,
        found: &mut Scrubbed,
        unreplaced: &mut Vec<BadReplica>,
    ) -> Result<()> {
        for device in &self.tiers.devices {
            if self.mover.misnamed(device, key, object, extents)?.is_none() {
                continue;
            }
            // The file may be about to be named, or the object may have changed.
            self.mover.follow(device)?;
            let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(()) };
            if let Some(whole) = self.mover.misnamed(device, key, &object, &extents)? {
                found.bad += 1;
                let files = device.target.files().filter(|_| repair);
                let named = files.is_some_and(|f| f.set_name(key, Some(&whole), &[]).is_ok_and(|named| named));
                if named || repair && self.make_new_file(device, key, &object)? {
                    found.repaired += 1;
                } else if let Some(first) = extents.first() {
                    let task = first.task(object.id, device.id);
                    let files = first.replicas.iter().filter(|replica| replica.place.segment == whole.file);
                    unreplaced.extend(files.map(|file| BadReplica { key: key.to_vec(), task, place: file.place }));
                }
            }
        }
        Ok(())
    }

    /// Replaces a plain file that another program has made longer.
    fn make_new_file(&self, device: &Device, key: &[u8], object: &Object) -> Result<bool> {
        self.mover.owe_file(device, key)?;
        Ok(self.mover.make_all(Some(object.id), true)? > 0)
    }

    /// Returns whether the catalog still names these frames. If not, the object has changed, and nothing is wrong.
    fn still_named(&self, key: &[u8], task: &Task, extent: &Extent) -> Result<bool> {
        Ok(self.catalog.frame(task, key)?.is_some_and(|now| now.replicas == extent.replicas))
    }

    /// Returns whether an extent has one replica, should have more, and none is pending. With `repair`, it first adds the
    /// missing ones as pending, as far as failure domains have room.
    fn has_one_copy(&self, key: &[u8], object: &Object, extent: &Extent, repair: bool) -> Result<bool> {
        let task = |target| extent.task(object.id, target);
        let now = self.catalog.frame(&task(0), key)?;
        let Some(now) = now else { return Ok(false) };
        let mut chosen: Vec<_> = now.replicas.iter().map(|r| r.target).collect();
        chosen.extend(self.catalog.owed_to(&task(0))?);
        let missing = usize::from(object.want).saturating_sub(chosen.len());
        if missing == 0 || !repair {
            return Ok(missing > 0 && chosen.len() == 1);
        }
        let placer = self.mover.placer_for(object.id, key);
        let placed = placer.place_more(&now, missing, &chosen);
        let is_left_alone = placed.is_empty() && chosen.len() == 1;
        for placed in placed {
            let edit = Edit::Owe {
                task: task(placed.target),
                key: serde_bytes::ByteBuf::from(key.to_vec()),
                raw_len: extent.raw_len,
                then_drop: None,
            };
            self.catalog.commit(edit.into())?;
        }
        Ok(is_left_alone)
    }
}
