//! Shared frames: frames that extents of several objects may name. Each has one record with its replicas and the number of its
//! owners, so that a replica that is made, lost or dropped is one edit for all owners. A frame dies with its last owner.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use heed::RoTxn;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use terrace_format::{Extent, NewExtent, Object, Owed, Replica, Source, Task, frames};

use super::apply::{Applier, staged_object};
use super::{Catalog, Records, decode, extents, keys};
use crate::{Error, Result};

const RECORD_NAME: &str = "a shared frame's record";

/// The record of a shared frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFrame {
    /// Raw bytes of the frame.
    pub raw_len: u32,
    /// How many places in objects name it. A place that newer writes have cut into parts is one.
    pub owners: u64,
    /// The highest number of replicas that an owner has wanted.
    pub want: u8,
    /// The lowest number of an object that was ever an owner. A lease on any of these objects may be reading the frame.
    first: u64,
    /// The highest one.
    last: u64,
    /// The last commit that took an owner by anything but the removal of all its bytes, 0: none has.
    overwritten: u64,
    /// The replicas that exist.
    pub replicas: SmallVec<[Replica; 3]>,
}

impl SharedFrame {
    fn new(object: u64, raw_len: u32, want: u8, replicas: SmallVec<[Replica; 3]>) -> SharedFrame {
        SharedFrame { raw_len, owners: 0, want, first: object, last: object, overwritten: 0, replicas }
    }

    /// A range that contains the numbers of all objects that were ever owners.
    pub(super) fn objects(&self) -> RangeInclusive<u64> {
        self.first..=self.last
    }

    /// The whole frame, as an extent of the object under which it was written.
    fn extent(self, name: &Task) -> Extent {
        let SharedFrame { raw_len, replicas, .. } = self;
        let (offset, write) = (name.frame_offset, name.write);
        let source = Some(Source { object: name.object, offset });
        Extent { offset, length: raw_len, skip: 0, raw_len, write, replicas, source }
    }
}

/// Reads the record of the frame that a task names.
pub fn read(records: Records, txn: &RoTxn<'_>, name: &Task) -> Result<Option<SharedFrame>> {
    let Some(value) = records.get(txn, &keys::shared(name))? else { return Ok(None) };
    let frame: SharedFrame = decode(value, RECORD_NAME)?;
    // Offsets are added everywhere. A record may be made up, and still have the right checksum.
    match name.frame_offset.checked_add(frame.raw_len.into()) {
        Some(_) => Ok(Some(frame)),
        None => Err(Error::Damaged { what: RECORD_NAME.into(), reason: "it has no end".into() }),
    }
}

/// Like [`read`], as an extent.
pub fn read_extent(records: Records, txn: &RoTxn<'_>, name: &Task) -> Result<Option<Extent>> {
    Ok(read(records, txn, name)?.map(|frame| frame.extent(name)))
}

/// Fills in the replicas of extents of shared frames.
pub fn resolve(records: Records, txn: &RoTxn<'_>, extents: &mut [Extent]) -> Result<()> {
    for extent in extents.iter_mut().filter(|extent| extent.source.is_some()) {
        let frame = read(records, txn, &extent.task(0, 0))?;
        extent.replicas = frame.map(|frame| frame.replicas).unwrap_or_default();
    }
    Ok(())
}

impl Applier<'_, '_> {
    pub(super) fn shared(&self, name: &Task) -> Result<Option<SharedFrame>> {
        read(self.records, self.txn, name)
    }

    fn put_shared(&mut self, name: &Task, frame: &SharedFrame) -> Result<()> {
        self.put(&keys::shared(name), frame)
    }

    /// Stages extents that name frames of other objects.
    pub(super) fn share(&mut self, id: u64, key: &[u8], from: &[u8], want: u8, new: &[NewExtent]) -> Result<()> {
        self.records.put(self.txn, &keys::staged(id), key)?;
        let named: Vec<&NewExtent> = new.iter().filter(|new| new.extent.source.is_some()).collect();
        self.make_shared(from, want, &named)?;
        let mut object = staged_object(id);
        // In one piece, with all parts of each frame: its owners are counted by what is there before and after.
        let start = named.iter().map(|new| new.extent.frame_offset()).min().unwrap_or(0);
        let end = named.iter().map(|new| frame_end(&new.extent)).max().unwrap_or(0);
        self.edit_extents(&mut object, start, end, |all| {
            for NewExtent { extent, .. } in named {
                extents::lay(all, Extent { replicas: SmallVec::new(), ..extent.clone() });
            }
        })
    }

    /// Returns whether each frame has exactly the replicas that `new` lists, and exactly the pending ones. If a power cut
    /// undoes the commit that wrote a frame, only the commit of the copy describes the frame, so this commit must list all
    /// of its replicas.
    pub(super) fn lists_what_is_there(&self, from: &[u8], new: &[NewExtent]) -> Result<bool> {
        let holder = self.object(from)?;
        for NewExtent { extent, owed } in new {
            let name = extent.task(0, 0);
            let replicas = match self.shared(&name)? {
                Some(frame) => frame.replicas,
                None => {
                    let named = holder.as_ref().filter(|object| object.id == name.object);
                    let staged = staged_object(name.object);
                    let holder = named.unwrap_or(&staged);
                    let near = extents::load_frame(self.records, self.txn, holder, name.frame_offset, name.write)?;
                    let frame = (name.write, name.frame_offset);
                    match near.into_iter().find(|e| e.source.is_none() && e.frame() == frame) {
                        Some(found) => found.replicas,
                        None => return Ok(false),
                    }
                }
            };
            let now = self.tasks(&keys::owed(&name)[..25])?;
            if replicas != extent.replicas || !now.iter().map(|task| &task.target).eq(owed) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the frames of these extents shared, as far as they are not yet.
    fn make_shared(&mut self, from: &[u8], want: u8, named: &[&NewExtent]) -> Result<()> {
        let mut own: BTreeMap<u64, BTreeMap<(u64, u64), &NewExtent>> = BTreeMap::new();
        for new in named {
            let name = new.extent.task(0, 0);
            match self.shared(&name)? {
                Some(frame) if frame.want >= want => {}
                Some(frame) => self.put_shared(&name, &SharedFrame { want, ..frame })?,
                None => {
                    own.entry(name.object).or_default().insert((name.write, name.frame_offset), new);
                }
            }
        }
        own.into_iter().try_for_each(|(object, frames)| self.make_shared_of(object, from, want, frames))
    }

    /// Makes frames of one object shared, by write and offset. The object itself is their first owner.
    fn make_shared_of(
        &mut self,
        id: u64,
        from: &[u8],
        want: u8,
        mut wanted: BTreeMap<(u64, u64), &NewExtent>,
    ) -> Result<()> {
        let named = self.object(from)?.filter(|object| object.id == id);
        let is_named = named.is_some();
        let holder = match named {
            None if self.records.get(self.txn, &keys::staged(id))?.is_some() => Some(staged_object(id)),
            named => named,
        };
        if let Some(mut holder) = holder {
            let start = wanted.keys().map(|(_, offset)| *offset).min().unwrap_or(0);
            let ends = wanted.iter().map(|((_, offset), new)| offset + u64::from(new.extent.raw_len));
            let end = ends.max().unwrap_or(0);
            let all = extents::load(self.records, self.txn, &holder, start, end)?;
            let mut found = HashSet::new();
            let most = want.max(holder.want);
            for extent in frames(&all).filter(|extent| extent.source.is_none()) {
                if wanted.remove(&extent.frame()).is_some() {
                    found.insert(extent.frame());
                    let frame = SharedFrame::new(id, extent.raw_len, most, extent.replicas.clone());
                    self.put_shared(&extent.task(id, 0), &frame)?;
                }
            }
            self.change_extents(&mut holder, all, |all| {
                for extent in all.iter_mut().filter(|e| e.source.is_none() && found.contains(&e.frame())) {
                    extent.source = Some(extent.source_in(id));
                    extent.replicas.clear();
                }
            })?;
            if is_named && holder.extents_in_record.is_some() {
                // Its bytes are unchanged, so its generation stays.
                self.put(&keys::object(from), &holder)?;
            }
        }
        // A power cut has undone the commit that wrote these, though their bytes are there: they are known from here alone.
        for NewExtent { extent, owed } in wanted.into_values() {
            let name = extent.task(0, 0);
            extent.replicas.iter().try_for_each(|replica| self.count(replica))?;
            self.put_shared(&name, &SharedFrame::new(name.object, extent.raw_len, want, extent.replicas.clone()))?;
            for &target in owed {
                let owed = Owed { key: from.to_vec(), raw_len: extent.raw_len, then_drop: None, since: self.sequence };
                self.put_owed(&Task { target, ..name }, &owed)?;
            }
        }
        Ok(())
    }

    /// Counts an object as an owner of the shared frames that its extents name after a change and did not name before it.
    pub(super) fn own_shared(&mut self, object: u64, before: &[Extent], after: &[Extent]) -> Result<()> {
        if after.iter().all(|extent| extent.source.is_none()) {
            return Ok(());
        }
        let known: HashSet<_> = before.iter().filter(|e| e.source.is_some()).map(Extent::frame).collect();
        for extent in frames(after).filter(|e| e.source.is_some() && !known.contains(&e.frame())) {
            let name = extent.task(object, 0);
            if let Some(frame) = self.shared(&name)? {
                let (first, last) = (frame.first.min(object), frame.last.max(object));
                self.put_shared(&name, &SharedFrame { owners: frame.owners + 1, first, last, ..frame })?;
            }
        }
        Ok(())
    }

    /// Removes an owner from a shared frame. With the last owner, the frame is dropped.
    pub(super) fn disown(&mut self, name: &Task) -> Result<()> {
        let Some(mut frame) = self.shared(name)? else { return Ok(()) };
        frame.owners = frame.owners.saturating_sub(1);
        if !self.is_removing {
            frame.overwritten = self.sequence;
        }
        if frame.owners > 0 {
            return self.put_shared(name, &frame);
        }
        // All owners must be gone in every outcome of a power cut. An owner that was overwritten has the frame again if that
        // write is lost, so a sync mark must cover it.
        let synced: u64 = match self.records.get(self.txn, keys::SYNCED_KEY)? {
            Some(value) => decode(value, "the last sync mark")?,
            None => 0,
        };
        let by_removal = self.is_removing && frame.overwritten <= synced;
        for replica in &frame.replicas {
            self.bury_of(frame.objects(), by_removal, replica.target, replica.place)?;
        }
        self.drop_tasks(name)?;
        self.records.delete(self.txn, &keys::shared(name))?;
        Ok(())
    }

    /// Changes the replicas of a shared frame; its record as it was before. `None` if the frame is not shared.
    pub(super) fn edit_shared(&mut self, name: &Task, edit: impl FnOnce(&mut Extent)) -> Result<Option<SharedFrame>> {
        let Some(frame) = self.shared(name)? else { return Ok(None) };
        let mut extent = frame.clone().extent(name);
        edit(&mut extent);
        self.put_shared(name, &SharedFrame { replicas: extent.replicas, ..frame.clone() })?;
        Ok(Some(frame))
    }

    /// Notes that an object wants this number of replicas of its shared frames.
    pub(super) fn want_shared(&mut self, object: &Object, want: u8) -> Result<()> {
        if self.records.prefix_iter(self.txn, &[keys::SHARED_LETTER])?.next().is_none() {
            return Ok(());
        }
        let all = extents::load(self.records, self.txn, object, 0, u64::MAX)?;
        for extent in frames(&all).filter(|extent| extent.source.is_some()) {
            let name = extent.task(object.id, 0);
            if let Some(frame) = self.shared(&name)?.filter(|frame| frame.want < want) {
                self.put_shared(&name, &SharedFrame { want, ..frame })?;
            }
        }
        Ok(())
    }
}

fn frame_end(extent: &Extent) -> u64 {
    extent.frame_offset() + u64::from(extent.raw_len)
}

/// A shared frame whose record does not have as many owners as name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miscounted {
    /// The frame; the target says nothing.
    pub name: Task,
    /// The number in its record.
    pub recorded: u64,
    /// The number of places in objects that name it.
    pub counted: u64,
}

impl Catalog {
    /// The record of the shared frame that a task names. `None` if the frame is not shared.
    pub fn shared_frame(&self, name: &Task) -> Result<Option<SharedFrame>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        read(env.records, &txn, name)
    }

    /// Calls `each` with the name and the record of every shared frame.
    pub fn each_shared_frame(&self, mut each: impl FnMut(Task, SharedFrame)) -> Result<()> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        for entry in env.records.prefix_iter(&txn, &[keys::SHARED_LETTER])? {
            let (key, value) = entry?;
            if let Some(name) = keys::shared_name(key) {
                each(name, decode(value, RECORD_NAME)?);
            }
        }
        Ok(())
    }

    /// The other objects under which frames of an object were written, if anything is owed. The extents of a copy have records of
    /// their own, which an object that shares nothing is not searched for.
    pub fn sources_of(&self, object: u64) -> Result<BTreeSet<u64>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut sources = BTreeSet::new();
        for letter in [keys::SHARED_LETTER, keys::OWED_LETTER] {
            if env.records.prefix_iter(&txn, &[letter])?.next().is_none() {
                return Ok(sources);
            }
        }
        for entry in env.records.prefix_iter(&txn, &keys::extents(object, 0)[..9])? {
            let extents: Vec<Extent> = decode(entry?.1, "a record of extents")?;
            sources.extend(extents.iter().filter_map(|extent| extent.source).map(|source| source.object));
        }
        sources.remove(&object);
        Ok(sources)
    }

    /// Compares the owners of all shared frames with a walk over all objects, staged ones too, at one moment.
    pub fn miscounted_frames(&self) -> Result<Vec<Miscounted>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut frames: HashMap<Task, (u64, u64)> = HashMap::new();
        for entry in env.records.prefix_iter(&txn, &[keys::SHARED_LETTER])? {
            let (key, value) = entry?;
            let Some(name) = keys::shared_name(key) else { continue };
            frames.insert(name, (decode::<SharedFrame>(value, RECORD_NAME)?.owners, 0));
        }
        let mut count = |object: u64, seen: &mut HashSet<(u64, u64)>, extents: &[Extent]| {
            for extent in extents.iter().filter(|extent| extent.source.is_some() && seen.insert(extent.frame())) {
                frames.entry(extent.task(object, 0)).or_default().1 += 1;
            }
        };
        for entry in env.records.prefix_iter(&txn, &[keys::OBJECT_LETTER])? {
            let object: Object = decode(entry?.1, "an object's record")?;
            count(object.id, &mut HashSet::new(), object.extents_in_record.as_deref().unwrap_or_default());
        }
        let (mut last, mut seen) = (0, HashSet::new());
        for entry in env.records.prefix_iter(&txn, &[keys::EXTENTS_LETTER])? {
            let (key, value) = entry?;
            let Some(object) = keys::number(key, 1) else { continue };
            if object != last {
                (last, seen) = (object, HashSet::new());
            }
            count(object, &mut seen, &decode::<Vec<Extent>>(value, "a record of extents")?);
        }
        let wrong = frames.into_iter().filter(|(_, (recorded, counted))| recorded != counted);
        Ok(wrong.map(|(name, (recorded, counted))| Miscounted { name, recorded, counted }).collect())
    }
}
