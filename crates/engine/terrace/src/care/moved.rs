//! Finds the replicas of known objects that moved by commits that the log lacks.
//!
//! Such a log names the places from before a move, which have been freed since. The header of each frame tells its identity, so a scan of the
//! targets finds the new places.

use std::collections::{HashMap, HashSet};

use serde_bytes::ByteBuf;
use terrace_catalog::{Edit, Extent, Object, Replica, frames};

use super::Care;
use super::frame_id::{FrameId, frame_in, frame_of};
use super::recover::EDITS_PER_COMMIT;
use crate::read::task_of;
use crate::{Error, Result};

/// The replicas that a scan has found of each frame.
type Found = HashMap<FrameId, Vec<Replica>>;

impl Care {
    /// Registers replicas of known objects at places that the catalog does not name, where those that it names are gone. Returns the number of
    /// extents that were found again.
    pub(super) fn find_moved(&self) -> Result<u64> {
        let mut found = self.scan_for(self.frames_lacking_replicas()?)?;
        found.retain(|_, replicas| !replicas.is_empty());
        let (mut edits, mut count) = (Vec::new(), 0);
        self.catalog.each_object(b"", |key, object, extents| {
            let before = count;
            for extent in frames(extents) {
                // A shared frame is found once, for all its owners.
                let Some(replicas) = found.remove(&frame_in(object.id, extent)) else { continue };
                let added = self.replace_gone(key, object, extent, replicas)?;
                count += u64::from(!added.is_empty());
                edits.extend(added);
            }
            if count > before {
                // If bytes of it are still missing, a scrub notes it again.
                self.reader.lost.forget(key, object);
            }
            self.commit_from(EDITS_PER_COMMIT, &mut edits)?;
            Ok::<_, Error>(true)
        })?;
        self.commit_from(1, &mut edits)?;
        Ok(count)
    }

    fn frames_lacking_replicas(&self) -> Result<Found> {
        let mut lacking = Found::new();
        self.catalog.each_object(b"", |_, object, extents| {
            let gone = |extent: &&Extent| extent.replicas.iter().any(|r| !self.has_frame(object.id, extent, r));
            lacking.extend(frames(extents).filter(gone).map(|extent| (frame_in(object.id, extent), Vec::new())));
            Ok::<_, Error>(true)
        })?;
        Ok(lacking)
    }

    fn scan_for(&self, mut lacking: Found) -> Result<Found> {
        if lacking.is_empty() {
            return Ok(lacking);
        }
        let mut shared = HashSet::new();
        self.catalog.each_shared_frame(|name, _| {
            shared.insert(frame_of(&name));
        })?;
        for device in &self.tiers.devices {
            let dying = self.catalog.dead_places(device.id)?;
            let scanned = device.target.scan(&mut |place, header| {
                let frame = (header.identity.object, (header.identity.write, header.identity.offset));
                // A plain file is one object's.
                let is_unusable = dying.contains(place) || place.is_plain() && shared.contains(&frame);
                if let Some(replicas) = lacking.get_mut(&frame).filter(|_| !is_unusable) {
                    let (stored, encoding) = (header.stored_len, header.encoding);
                    replicas.push(Replica { target: device.id, place, stored, encoding });
                }
            });
            scanned.map_err(Error::io(format!("looking through {}", device.path.display())))?;
        }
        Ok(lacking)
    }

    /// Returns the edits that register the good ones of these replicas, one on each target. The replicas that are gone become pending, but only
    /// if there is a good one.
    fn replace_gone(&self, key: &[u8], object: &Object, extent: &Extent, found: Vec<Replica>) -> Result<Vec<Edit>> {
        let (kept, gone): (Vec<&Replica>, Vec<&Replica>) =
            extent.replicas.iter().partition(|replica| self.has_frame(object.id, extent, replica));
        let mut held: HashSet<_> = kept.iter().map(|replica| replica.target).collect();
        let (mut edits, key) = (Vec::new(), ByteBuf::from(key));
        for replica in found {
            if !held.contains(&replica.target) && self.has_bytes(object.id, extent, &replica) {
                held.insert(replica.target);
                let task = task_of(object.id, extent, &replica);
                edits.push(Edit::Owe { task, key: key.clone(), raw_len: extent.raw_len, then_drop: None });
                edits.push(Edit::Made { task, replica });
            }
        }
        if edits.is_empty() {
            return Ok(edits);
        }
        // The found one on the same target takes its place.
        let gone = gone.into_iter().filter(|replica| !held.contains(&replica.target));
        let wanted = usize::from(self.mover.wanted(object.want, object.id, extent)?);
        for (missing, replica) in gone.enumerate() {
            let owed = (held.len() + missing < wanted).then_some(replica.target);
            let task = task_of(object.id, extent, replica);
            edits.push(Edit::Lost { task, key: key.clone(), place: replica.place, owed });
        }
        Ok(edits)
    }
}
