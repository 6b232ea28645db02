//! Applies edits to the catalog's records. Live commits and replay of the log share this code, so a rebuilt catalog equals the
//! lost one.

mod check;
mod frames;
mod replicas;

use std::collections::HashSet;

pub use frames::Live;

use heed::RwTxn;
use serde::Serialize;
use terrace_format::{Attributes, Object, Owed, TargetId, Task};
use terrace_format::{Edit, Extent, NewExtent};

use super::count_changes::CountChanges;
use super::extents;
use super::keys;
use super::{Records, decode, encode};
use crate::Result;

/// Applies commits in an open transaction.
pub struct Applier<'a, 'env> {
    pub(super) records: Records,
    pub(super) txn: &'a mut RwTxn<'env>,
    time: u64,
    /// The sequence of the current commit.
    pub sequence: u64,
    /// Whether the current commit needs no bytes: once the log holds it durably, no power cut can undo it.
    needs_no_bytes: bool,
    /// Whether the current edit removes all bytes of an object, in a commit that needs no bytes. Removing a part does not
    /// count: it may kill a frame while an earlier write, whose bytes may be lost, covers the rest of that frame.
    pub(super) is_removing: bool,
    /// Counts of segments, which [`Applier::finish`] writes to their records.
    pub(super) counts: Vec<((TargetId, u64), Live)>,
    /// Changes of the kept numbers, which [`Applier::finish`] writes.
    pub(super) changes: CountChanges,
    /// The last folder that was found to have no file above it.
    folder: Vec<u8>,
    /// The last key that was found to name nothing.
    vacant: Vec<u8>,
    /// Whether any target was taken out of the store. None if nobody has asked.
    pub(super) has_retired: Option<bool>,
}

impl<'a, 'env> Applier<'a, 'env> {
    /// Starts after commit `sequence`, at `time` (seconds since 1970).
    pub fn new(records: Records, txn: &'a mut RwTxn<'env>, sequence: u64, time: u64) -> Self {
        Applier {
            records,
            txn,
            time,
            sequence,
            needs_no_bytes: false,
            is_removing: false,
            counts: Vec::new(),
            changes: CountChanges::default(),
            folder: Vec::new(),
            vacant: Vec::new(),
            has_retired: None,
        }
    }

    /// Begins the commit of this sequence.
    pub fn begin(&mut self, sequence: u64, edits: &[Edit]) {
        self.sequence = sequence;
        self.needs_no_bytes = Edit::need_no_bytes(edits);
    }

    /// Writes the counts of segments, objects and pending replicas that were collected over all commits.
    pub fn finish(mut self) -> Result<()> {
        for ((target, segment), live) in std::mem::take(&mut self.counts) {
            self.put(&keys::segment(target, segment), &live)?;
        }
        self.finish_counts()
    }

    pub fn object(&self, key: &[u8]) -> Result<Option<Object>> {
        if !key.is_empty() && key == self.vacant {
            return Ok(None);
        }
        self.records.get(self.txn, &keys::object(key))?.map(|value| decode(value, "an object's record")).transpose()
    }

    pub(super) fn put<T: Serialize>(&mut self, key: &[u8], value: &T) -> Result<()> {
        let mut buffer = [0; 512];
        match postcard::to_slice(value, &mut buffer) {
            Ok(bytes) => self.records.put(self.txn, key, bytes)?,
            Err(_) => self.records.put(self.txn, key, &encode(value)?)?,
        }
        Ok(())
    }

    fn put_object(&mut self, key: &[u8], object: &mut Object) -> Result<()> {
        self.vacant.clear();
        object.generation = self.sequence;
        self.put(&keys::object(key), object)
    }

    /// Applies one edit. An edit whose object is gone does nothing, which happens in a replay after a power cut.
    pub fn apply(&mut self, edit: &Edit) -> Result<()> {
        if !matches!(edit, Edit::Put { .. } | Edit::Write { .. }) {
            self.folder.clear();
        }
        self.is_removing = self.needs_no_bytes
            && matches!(edit, Edit::Remove { .. } | Edit::Unstage { .. } | Edit::SetLength { length: 0, .. });
        // No state needs the bytes of a file of an origin: where they are missing, they are fetched.
        self.is_removing |= self.needs_no_bytes && matches!(edit, Edit::Uncache { .. });
        match edit {
            Edit::Stage { object, key, extents } => self.stage(*object, key, extents),
            Edit::Unstage { object } => self.unstage(*object),
            Edit::Put { key, object, length, want, attributes, staged, extents } => {
                let extents_in_record = if *staged { None } else { Some(Default::default()) };
                let attributes = attributes.clone();
                let new =
                    Object { id: *object, generation: 0, length: *length, want: *want, attributes, extents_in_record };
                self.put_whole(key, new, extents)
            }
            Edit::Write { key, object, want, mtime, extents } => self.write(key, *object, *want, *mtime, extents),
            Edit::Merge { key, object, extents } => self.merge(key, *object, extents),
            Edit::Want { key, object, want } => {
                let Some(object) = self.object(key)?.filter(|named| named.id == *object) else { return Ok(()) };
                self.want_shared(&object, *want)?;
                self.put(&keys::object(key), &Object { want: *want, ..object })
            }
            Edit::SetLength { key, length, mtime } => self.set_length(key, *length, *mtime),
            Edit::SetAttributes { key, attributes } => self.set_attributes(key, attributes),
            Edit::Remove { key } => self.remove(key),
            Edit::Rename { from, to } => self.rename(from, to),
            Edit::Made { task, replica } => self.made(task, replica),
            Edit::Owe { task, key, raw_len, then_drop } => self.owe(task, key, *raw_len, *then_drop),
            Edit::Forgive { task } => self.drop_owed(task),
            Edit::Lost { task, key, place, owed } => self.lose(task, key, *place, *owed),
            Edit::Freed { target, places } => self.freed(*target, places),
            Edit::Discarded { target, segment } => self.discarded(*target, *segment),
            Edit::Synced { sequence } => self.put(keys::SYNCED_KEY, sequence),
            Edit::Followed { target, key, sequence } => self.followed(*target, key, *sequence),
            Edit::Void { .. } => Ok(()),
            Edit::Clear { key, start, end, mtime } => self.clear(key, *start, *end, *mtime),
            Edit::Share { object, key, from, want, extents } => self.share(*object, key, from, *want, extents),
            Edit::Retire { target } => self.retire(*target),
            Edit::Uncache { key, object, start, end } => self.uncache(key, *object, *start, *end),
        }
    }

    /// Skips a void edit. A later [`Edit::Merge`] may include its bytes, so the object's digests cannot stay.
    pub fn skip(&mut self, edit: &Edit) -> Result<()> {
        let Edit::Write { key, object, .. } = edit else { return Ok(()) };
        match self.object(key)? {
            Some(mut named) if named.id == *object => {
                named.attributes.remove_digests();
                self.put(&keys::object(key), &named)
            }
            _ => Ok(()),
        }
    }

    fn stage(&mut self, id: u64, key: &[u8], extents: &[NewExtent]) -> Result<()> {
        self.records.put(self.txn, &keys::staged(id), key)?;
        let mut object = staged_object(id);
        self.lay(key, &mut object, extents)
    }

    fn unstage(&mut self, id: u64) -> Result<()> {
        self.records.delete(self.txn, &keys::staged(id))?;
        self.drop_extents(&staged_object(id))
    }

    fn put_whole(&mut self, key: &[u8], mut object: Object, extents: &[NewExtent]) -> Result<()> {
        let old = self.object(key)?;
        if old.as_ref().is_some_and(|old| old.id == object.id) {
            // The edit is repeated. The bytes of the old object are those of the new one, and would be freed.
            self.records.delete(self.txn, &keys::staged(object.id))?;
            return Ok(());
        }
        let old_expiry = old.as_ref().and_then(|old| old.attributes.expiry());
        self.index_expiry(key, old_expiry, object.attributes.expiry())?;
        match old {
            Some(old) => {
                self.unfollow(old.id, key)?;
                self.drop_extents(&old)?;
            }
            None => self.changes.name(key, 1),
        }
        if object.extents_in_record.is_none() {
            self.records.delete(self.txn, &keys::staged(object.id))?;
            // The names of files that were adopted for staged extents had to wait for the object.
            self.unfollow(object.id, key)?;
        }
        self.lay(key, &mut object, extents)?;
        self.put_object(key, &mut object)
    }

    /// Adds new extents to an object. They trim the older ones that they cover. A frame that the object has already is left as it is,
    /// so that a repeated edit does no harm.
    fn lay(&mut self, key: &[u8], object: &mut Object, new: &[NewExtent]) -> Result<()> {
        for group in extents::near(new.iter().map(|new| &new.extent)) {
            let all = extents::load(self.records, self.txn, object, group.range.start, group.range.end)?;
            let known: HashSet<_> = all.iter().map(Extent::frame).collect();
            let mut added = Vec::with_capacity(group.extents.len());
            for (index, extent) in group.extents {
                if known.contains(&extent.frame()) {
                    continue;
                }
                for replica in &extent.replicas {
                    self.count(replica)?;
                    // Of an adopted file.
                    if replica.place.is_plain() {
                        let task = extent.task(object.id, replica.target);
                        self.hold_plain(&task, key, replica.place.segment)?;
                    }
                }
                for &target in &new[index].owed {
                    let task = extent.task(object.id, target);
                    let (key, raw_len) = (key.to_vec(), extent.raw_len);
                    self.put_owed(&task, &Owed { key, raw_len, then_drop: None, since: self.sequence })?;
                }
                added.push(extent);
            }
            self.change_extents(object, all, |all| added.into_iter().for_each(|new| extents::lay(all, new.clone())))?;
        }
        Ok(())
    }

    fn write(&mut self, key: &[u8], id: u64, want: u8, mtime: i64, extents: &[NewExtent]) -> Result<()> {
        let named = self.object(key)?;
        if named.as_ref().is_some_and(|object| object.id != id) {
            // A power cut has undone the object of this write, and the previous object is back.
            return Ok(());
        }
        if named.is_none() {
            self.changes.name(key, 1);
        }
        let mut object = named.unwrap_or_else(|| Object {
            id,
            generation: 0,
            length: 0,
            want,
            attributes: Attributes { mode: 0o644, ..Attributes::default() },
            extents_in_record: Some(Default::default()),
        });
        self.lay(key, &mut object, extents)?;
        let end = extents.iter().map(|new| new.extent.end()).max().unwrap_or(0);
        object.length = object.length.max(end);
        object.attributes.mtime = mtime;
        object.attributes.remove_digests();
        self.put_object(key, &mut object)
    }

    fn merge(&mut self, key: &[u8], id: u64, extents: &[NewExtent]) -> Result<()> {
        let Some(mut object) = self.object(key)?.filter(|named| named.id == id) else { return Ok(()) };
        self.lay(key, &mut object, extents)?;
        // The merged extents may include the bytes of a void write, and with them the object's end.
        let end = extents.iter().map(|new| new.extent.end()).max().unwrap_or(0);
        object.length = object.length.max(end);
        self.put(&keys::object(key), &object)
    }

    fn set_length(&mut self, key: &[u8], length: u64, mtime: i64) -> Result<()> {
        let Some(mut object) = self.object(key)? else { return Ok(()) };
        self.unfollow(object.id, key)?;
        if length < object.length {
            let end = object.length;
            self.edit_extents(&mut object, length, end, |all| extents::clear(all, length, end))?;
            self.owe_plain(&object, key)?;
        }
        object.length = length;
        object.attributes.mtime = mtime;
        object.attributes.remove_digests();
        self.put_object(key, &mut object)
    }

    fn set_attributes(&mut self, key: &[u8], attributes: &Attributes) -> Result<()> {
        let Some(mut object) = self.object(key)? else { return Ok(()) };
        let before = std::mem::replace(&mut object.attributes, attributes.clone());
        // Digests belong to the bytes, and these attributes may have been read before the last write.
        object.attributes.take_digests(&before);
        self.index_expiry(key, before.expiry(), object.attributes.expiry())?;
        self.unfollow(object.id, key)?;
        self.put_object(key, &mut object)
    }

    fn remove(&mut self, key: &[u8]) -> Result<()> {
        let Some(object) = self.object(key)? else { return Ok(()) };
        self.records.delete(self.txn, &keys::object(key))?;
        self.changes.name(key, -1);
        self.index_expiry(key, object.attributes.expiry(), None)?;
        self.unfollow(object.id, key)?;
        self.drop_extents(&object)
    }

    fn clear(&mut self, key: &[u8], start: u64, end: u64, mtime: i64) -> Result<()> {
        let Some(mut object) = self.object(key)? else { return Ok(()) };
        self.unfollow(object.id, key)?;
        self.edit_extents(&mut object, start, end, |all| extents::clear(all, start, end))?;
        self.owe_plain(&object, key)?;
        object.attributes.mtime = mtime;
        object.attributes.remove_digests();
        self.put_object(key, &mut object)
    }

    fn uncache(&mut self, key: &[u8], id: u64, start: u64, end: u64) -> Result<()> {
        let Some(mut object) = self.object(key)?.filter(|named| named.id == id) else { return Ok(()) };
        self.edit_extents(&mut object, start, end, |all| extents::clear(all, start, end))?;
        self.put(&keys::object(key), &object)
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let Some(mut object) = self.object(from)? else { return Ok(()) };
        if from == to {
            return Ok(());
        }
        let old = self.object(to)?;
        let old_expiry = old.as_ref().and_then(|old| old.attributes.expiry());
        self.index_expiry(to, old_expiry, object.attributes.expiry())?;
        self.index_expiry(from, object.attributes.expiry(), None)?;
        match old {
            Some(old) => {
                self.unfollow(old.id, to)?;
                self.drop_extents(&old)?;
            }
            None => self.changes.name(to, 1),
        }
        self.changes.name(from, -1);
        self.unfollow(object.id, from)?;
        self.unfollow(object.id, to)?;
        self.records.delete(self.txn, &keys::object(from))?;
        for task in self.tasks(&keys::owed(&first_task(object.id))[..9])? {
            if let Some(owed) = self.owed(&task)? {
                self.put(&keys::owed(&task), &Owed { key: to.to_vec(), ..owed })?;
            }
        }
        self.put_object(to, &mut object)
    }
}

fn first_task(object: u64) -> Task {
    Task { object, frame_offset: 0, write: 0, target: 0 }
}

/// A staged object has extents, and nothing else yet.
pub fn staged_object(id: u64) -> Object {
    Object { id, generation: 0, length: 0, want: 0, attributes: Attributes::default(), extents_in_record: None }
}
