//! Salvage: rebuilds objects from the headers of their frames when the log and all its copies are lost.
//!
//! Only the log held keys, exact lengths, and the order of overlapping range writes. So each object gets a key such as
//! `salvaged/NUMBER`, and some of the objects may have been deleted before.

use std::collections::{BTreeMap, HashSet};

use terrace_catalog::{Attributes, Change, Edit, Expect, Extent, NewExtent, Replica, TargetId, lay};
use terrace_system::clock::unix_nanos;
use terrace_tier::PLAIN_SEGMENT_BIT;

use super::Care;
use super::frame_id::{FrameId, frame_of};
use crate::place::PutOptions;
use crate::report::{Lacking, Salvaged};
use crate::{Error, Result};

/// Begins the keys of salvaged objects.
const SALVAGED_FOLDER: &str = "salvaged/";
/// The number of extents that one commit records.
const EXTENTS_PER_COMMIT: usize = 4096;

/// The frames of one object that the catalog does not know, by write and offset.
type Frames = BTreeMap<(u64, u64), Extent>;

impl Care {
    /// Gives a key to each whole object on the targets that the catalog does not know, and finds the replicas of others that have moved.
    pub fn salvage(&self) -> Result<Salvaged> {
        let (highest, objects) = self.unknown_frames()?;
        // Numbers that the lost log gave out must not be given out again.
        self.catalog.pass_ids(highest)?;
        let mut salvaged = Salvaged { found_again: self.find_moved()?, ..Salvaged::default() };
        for (object, frames) in objects {
            match self.whole(object, frames) {
                Some(extents) => {
                    salvaged.objects += 1;
                    salvaged.bytes += self.offer(object, extents)?;
                }
                None => salvaged.incomplete += 1,
            }
        }
        self.mover.note_lacking();
        Ok(salvaged)
    }

    /// Without a log, makes sure that no number is given out that a frame on the targets has.
    pub(super) fn begin_after_what_is_there(&self) -> Result<()> {
        let mut highest = 0;
        for device in &self.tiers.devices {
            let scanned = device.target.scan(&mut |place, header| {
                highest = highest
                    .max(header.identity.object)
                    .max(header.identity.write)
                    .max(place.segment & !PLAIN_SEGMENT_BIT);
            });
            if let Err(e) = scanned {
                device.failed(&e);
            }
        }
        if highest > 0 {
            self.catalog.pass_ids(highest)?;
        }
        Ok(())
    }

    /// Returns the highest number in use on the targets, and the frames of objects that the catalog does not know.
    fn unknown_frames(&self) -> Result<(u64, BTreeMap<u64, Frames>)> {
        let mut known: HashSet<u64> = self.catalog.staged()?.into_iter().map(|(object, _)| object).collect();
        self.catalog.each_object(b"", |_, object, _| {
            known.insert(object.id);
            Ok::<_, Error>(true)
        })?;
        // Frames of removed objects that copies still name.
        let mut shared: HashSet<FrameId> = HashSet::new();
        self.catalog.each_shared_frame(|name, _| {
            shared.insert(frame_of(&name));
        })?;
        let (mut highest, mut objects) = (0, BTreeMap::<u64, Frames>::new());
        for device in &self.tiers.devices {
            let dying = self.catalog.dead_places(device.id)?;
            let scanned = device.target.scan(&mut |place, header| {
                let id = header.identity;
                highest = highest.max(id.object).max(id.write).max(place.segment & !PLAIN_SEGMENT_BIT);
                let frame = (id.object, (id.write, id.offset));
                if known.contains(&id.object) || shared.contains(&frame) || dying.contains(place) {
                    return;
                }
                let (raw_len, encoding) = (header.raw_len, header.encoding);
                let new = || Extent {
                    offset: id.offset,
                    length: raw_len,
                    skip: 0,
                    raw_len,
                    write: id.write,
                    replicas: Default::default(),
                    source: None,
                };
                let frame = objects.entry(id.object).or_default().entry((id.write, id.offset)).or_insert_with(new);
                frame.replicas.push(Replica { target: device.id, place, stored: header.stored_len, encoding });
            });
            scanned.map_err(Error::io(format!("looking through {}", device.path.display())))?;
        }
        Ok((highest, objects))
    }

    /// Returns the extents of an object, oldest first, if they have no gap from its first byte on.
    fn whole(&self, object: u64, frames: Frames) -> Option<Vec<Extent>> {
        let mut good = Vec::new();
        for mut frame in frames.into_values() {
            let mut held: HashSet<TargetId> = HashSet::new();
            let mut replicas = std::mem::take(&mut frame.replicas);
            replicas.retain(|replica| self.has_bytes(object, &frame, replica) && held.insert(replica.target));
            frame.replicas = replicas;
            if !frame.replicas.is_empty() {
                good.push(frame);
            }
        }
        let mut map = Vec::new();
        good.iter().for_each(|frame| lay(&mut map, frame.clone()));
        let mut end = 0;
        for extent in &map {
            if extent.offset != end {
                return None;
            }
            end = extent.end();
        }
        // Frames that newer writes cover are no part of the object.
        good.retain(|frame| map.iter().any(|extent| extent.same_frame(frame)));
        (end > 0).then_some(good)
    }

    /// Returns the number of objects below `salvaged/`, and their length.
    pub fn count_salvaged(&self) -> Result<(u64, u64)> {
        let (mut objects, mut bytes) = (0, 0);
        self.catalog.each_object(SALVAGED_FOLDER.as_bytes(), |_, object, _| {
            objects += 1;
            bytes += object.length;
            Ok::<_, Error>(true)
        })?;
        Ok((objects, bytes))
    }

    /// Adds the replicas that an extent lacks as pending, as far as failure domains have room, and counts what it lacks then.
    fn owe_missing(&self, object: u64, key: &[u8], extent: Extent, want: u8) -> Result<NewExtent> {
        let held: Vec<TargetId> = extent.replicas.iter().map(|replica| replica.target).collect();
        let owed: Vec<TargetId> = match usize::from(want).saturating_sub(held.len()) {
            0 => Vec::new(),
            missing => {
                let more = self.mover.placer_for(object, key)?.plan_more(&extent, missing, &held);
                more.iter().map(|placed| placed.target).collect()
            }
        };
        self.mover.count_lacking(Lacking::of(held.len() + owed.len(), want.into()));
        Ok(NewExtent { extent, owed })
    }

    /// Gives the object a key, and returns its length.
    fn offer(&self, object: u64, extents: Vec<Extent>) -> Result<u64> {
        let key = format!("{SALVAGED_FOLDER}{object:016x}").into_bytes();
        let length = extents.iter().map(Extent::end).max().unwrap_or(0);
        let want = self.planning.policy(&key, &PutOptions::default()).wanted.replicas;
        let new = extents.into_iter().map(|extent| self.owe_missing(object, &key, extent, want));
        let new: Vec<NewExtent> = new.collect::<Result<_>>()?;
        let mut batches: Vec<Vec<NewExtent>> = new.chunks(EXTENTS_PER_COMMIT).map(<[NewExtent]>::to_vec).collect();
        let extents = batches.pop().unwrap_or_default();
        let staged = !batches.is_empty();
        for extents in batches {
            self.catalog.commit(Edit::Stage { object, key: key.clone(), extents }.into())?;
        }
        let said = "put together from frames: its key, its end and the order of range writes are not known";
        let user = BTreeMap::from([("salvaged".to_owned(), said.to_owned())]);
        let attributes = Attributes { mode: 0o600, mtime: unix_nanos(), user, ..Attributes::default() };
        let expect = vec![Expect::Free(key.clone())];
        let edits = vec![Edit::Put { key, object, length, want, attributes, staged, extents }];
        self.catalog.commit(Change { expect, edits })?;
        Ok(length)
    }
}
