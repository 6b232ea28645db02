//! Changes the extents of objects, and keeps account of their frames: the live ones of each segment, and the dead ones.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use terrace_format::Place;
use terrace_format::{Extent, Object, Replica, TargetId, Task, frames};

use super::{Applier, staged_object};
use crate::Result;
use crate::dead::Dead;
use crate::{decode, encode, extents, keys};

/// A neighbour of a dying frame is searched for among this many of the target's newest dead places. Each writer has its own
/// segment, and more writers than this rarely alternate.
const MAX_SEARCHED_NEIGHBOURS: usize = 8;

/// The counts of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// The number of frames that extents name.
    pub frames: u64,
    /// Their bytes, including headers.
    pub bytes: u64,
    /// The last commit that added a frame.
    pub sequence: u64,
    /// The end of the last place that any commit has named.
    pub end: u64,
}

impl Live {
    /// Reads a segment's record. Records of older versions lack the last field, `end`, which is then unknown and set to the
    /// maximum.
    pub fn read(value: &[u8]) -> Result<Live> {
        let what = "a segment's record";
        decode(value, what).or_else(|_| decode(&[value, &encode(&u64::MAX)?].concat(), what))
    }
}

/// A frame whose replicas were changed.
pub struct Edited {
    /// Raw bytes of the frame.
    pub raw_len: u32,
    /// A range that contains the numbers of all objects that name it, or did.
    pub objects: RangeInclusive<u64>,
}

impl Applier<'_, '_> {
    /// Changes every part of a frame. `None` if no part of it is left.
    pub(super) fn edit_frame(
        &mut self,
        key: &[u8],
        task: &Task,
        mut edit: impl FnMut(&mut Extent),
    ) -> Result<Option<Edited>> {
        let named = self.object(key)?.filter(|object| object.id == task.object);
        let is_named = named.is_some();
        let own = match named {
            None if self.records.get(self.txn, &keys::staged(task.object))?.is_some() => {
                Some(staged_object(task.object))
            }
            named => named,
        };
        let mut raw_len = None;
        if let Some(mut object) = own {
            let frame = (task.write, task.frame_offset);
            let all = extents::load_frame(self.records, self.txn, &object, task.frame_offset, task.write)?;
            self.change_extents(&mut object, all, |all| {
                for extent in all.iter_mut().filter(|extent| extent.frame() == frame && extent.source.is_none()) {
                    edit(extent);
                    raw_len = Some(extent.raw_len);
                }
            })?;
            if is_named && object.extents_in_record.is_some() && raw_len.is_some() {
                // The object's bytes are unchanged, so its generation stays.
                self.put(&keys::object(key), &object)?;
            }
        }
        match raw_len {
            Some(raw_len) => Ok(Some(Edited { raw_len, objects: task.object..=task.object })),
            None => {
                let shared = self.edit_shared(task, edit)?;
                Ok(shared.map(|frame| Edited { raw_len: frame.raw_len, objects: frame.objects() }))
            }
        }
    }

    /// Changes an object's extents around a range, and queues the frames that have no part left as dead places.
    pub(crate) fn edit_extents(
        &mut self,
        object: &mut Object,
        start: u64,
        end: u64,
        edit: impl FnOnce(&mut Vec<Extent>),
    ) -> Result<()> {
        let all = extents::load(self.records, self.txn, object, start, end)?;
        self.change_extents(object, all, edit)
    }

    /// Like [`Applier::edit_extents`], for extents that are already loaded.
    pub(crate) fn change_extents(
        &mut self,
        object: &mut Object,
        mut all: Vec<Extent>,
        edit: impl FnOnce(&mut Vec<Extent>),
    ) -> Result<()> {
        let before = all.clone();
        edit(&mut all);
        if all == before {
            return Ok(());
        }
        extents::store(self.records, self.txn, object, &before, &all)?;
        // Before owners are taken: a frame that only moves to another place in the object must not die on the way.
        self.own_shared(object.id, &before, &all)?;
        let left: HashSet<_> = all.iter().map(Extent::frame).collect();
        self.bury_extents(object.id, &before, |old| left.contains(&old.frame()))
    }

    pub(super) fn drop_extents(&mut self, object: &Object) -> Result<()> {
        self.drop_plain(object.id)?;
        let mut object = object.clone();
        let all = extents::load(self.records, self.txn, &object, 0, u64::MAX)?;
        extents::store(self.records, self.txn, &mut object, &all, &[])?;
        self.bury_extents(object.id, &all, |_| false)
    }

    fn bury_extents(&mut self, object: u64, extents: &[Extent], lives: impl Fn(&Extent) -> bool) -> Result<()> {
        for extent in frames(extents).filter(|extent| !lives(extent)) {
            let name = extent.task(object, 0);
            if extent.source.is_some() {
                self.disown(&name)?;
                continue;
            }
            for replica in &extent.replicas {
                self.bury(object, replica.target, replica.place)?;
            }
            self.drop_tasks(&name)?;
        }
        Ok(())
    }

    /// Deletes the tasks of all pending replicas of a frame.
    pub(crate) fn drop_tasks(&mut self, name: &Task) -> Result<()> {
        for task in self.tasks(&keys::owed(&Task { target: 0, ..*name })[..25])? {
            self.drop_owed(&task)?;
        }
        Ok(())
    }

    /// Returns the tasks of pending replicas whose key begins with `prefix`.
    pub(crate) fn tasks(&self, prefix: &[u8]) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for entry in self.records.prefix_iter(self.txn, prefix)? {
            tasks.extend(keys::task(entry?.0));
        }
        Ok(tasks)
    }

    fn live(&mut self, target: TargetId, segment: u64) -> Result<&mut Live> {
        let at = match self.counts.iter().position(|(known, _)| *known == (target, segment)) {
            Some(at) => at,
            None => {
                let value = self.records.get(self.txn, &keys::segment(target, segment))?;
                let live = value.map(Live::read).transpose()?.unwrap_or_default();
                self.counts.push(((target, segment), live));
                self.counts.len() - 1
            }
        };
        Ok(&mut self.counts[at].1)
    }

    /// Returns the last commit that added a frame to a segment.
    pub(crate) fn last_added(&self, target: TargetId, segment: u64) -> Result<u64> {
        if let Some((_, live)) = self.counts.iter().find(|(known, _)| *known == (target, segment)) {
            return Ok(live.sequence);
        }
        let value = self.records.get(self.txn, &keys::segment(target, segment))?;
        Ok(value.map(Live::read).transpose()?.unwrap_or_default().sequence)
    }

    pub(crate) fn count(&mut self, replica: &Replica) -> Result<()> {
        let sequence = self.sequence;
        let live = self.live(replica.target, replica.place.segment)?;
        live.frames += 1;
        live.bytes += u64::from(replica.place.length);
        live.sequence = sequence;
        live.end = live.end.max(replica.place.end());
        Ok(())
    }

    /// Queues a dead place. Its space is freed once no power cut can undo this commit.
    pub(super) fn bury(&mut self, object: u64, target: TargetId, place: Place) -> Result<()> {
        self.bury_of(object..=object, self.is_removing, target, place)
    }

    /// Like [`Applier::bury`], for a place that held bytes of several objects.
    pub(crate) fn bury_of(
        &mut self,
        objects: RangeInclusive<u64>,
        by_removal: bool,
        target: TargetId,
        place: Place,
    ) -> Result<()> {
        let live = self.live(target, place.segment)?;
        live.frames = live.frames.saturating_sub(1);
        live.bytes = live.bytes.saturating_sub(u64::from(place.length));
        let mut dead = Dead::new(place.length, self.time, objects, by_removal);
        let mut offset = place.offset;
        if let Some((record, joined)) = self.dead_before(target, place, &dead)? {
            self.records.delete(self.txn, &record)?;
            offset = keys::freed_place(&record).map_or(offset, |(_, before)| before.offset);
            dead = joined;
        }
        self.put(&keys::freed(target, self.sequence, place.segment, offset), &dead)
    }

    /// Finds the record of an adjacent place that `dead` can share, and returns its key and the joined record. With one record
    /// for each frame, overwriting a small object repeatedly would make the catalog large.
    fn dead_before(&self, target: TargetId, place: Place, dead: &Dead) -> Result<Option<(keys::Key, Dead)>> {
        let newest = self.records.rev_prefix_iter(self.txn, &keys::freed_on(target))?;
        for entry in newest.take(MAX_SEARCHED_NEIGHBOURS) {
            let (key, value) = entry?;
            let Some((_, before)) = keys::freed_place(key) else { continue };
            if before.segment != place.segment || before.offset >= place.offset {
                continue;
            }
            if let Some(joined) = Dead::read(value)?.joined_by(before, place, dead) {
                return Ok(Some((keys::Key::from_slice(key), joined)));
            }
        }
        Ok(None)
    }
}
