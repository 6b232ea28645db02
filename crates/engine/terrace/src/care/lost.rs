//! Finds the commits of a log that name lost bytes: bytes that no target holds any more, and that no later commit replaces
//! or removes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use terrace_catalog::log::Record;
use terrace_catalog::{Catalog, Edit, NewExtent, Replica, TargetId, Task, Voids};

use super::Care;
use super::rebuild::{FrameId, frame_in, frame_of};
use crate::{Error, Result};

/// A commit that brings bytes, so that it may be void, and lays over or removes bytes of other commits, or stages its own.
pub(super) struct Doubtful {
    pub sequence: u64,
    edits: Vec<Edit>,
    /// Ranges of objects that it removes.
    removed: Vec<(u64, Range<u64>)>,
}

/// The later records of a log about the bytes that its earlier records name.
pub(super) struct Later<'a> {
    care: &'a Care,
    /// Replicas that later commits registered.
    made: HashMap<FrameId, Vec<Replica>>,
    /// Ranges of objects that later commits overwrite or remove. The bytes that were there before are not needed.
    laid_over: HashMap<u64, Vec<(u64, Range<u64>)>>,
    /// The object of each key after the noted records, if they name the key.
    names: HashMap<Vec<u8>, Option<u64>>,
    /// Frames that have a good replica.
    held: HashSet<FrameId>,
    /// Frames that may have a replica on a target that did not answer.
    unanswered: HashMap<FrameId, TargetId>,
    /// The objects that name each shared frame, or did, or may have.
    sharers: HashMap<FrameId, HashSet<u64>>,
    /// Objects that are removed as a whole, whatever bytes are lost.
    removed: HashSet<u64>,
    /// Frames whose commit is void and that no copy of the object names.
    unnamed: HashSet<FrameId>,
    /// Keys whose object is not there, because the commit that was to name it is void. An older object may be there instead.
    undone: HashSet<Vec<u8>>,
    /// Objects that are not there, because the commit that was to name them is void.
    unmade: HashSet<u64>,
    /// Objects with a lost staged part.
    broken: HashSet<u64>,
    /// The commits that an earlier replay found lost.
    pub void: Voids,
}

impl<'a> Later<'a> {
    pub fn new(care: &'a Care) -> Result<Later<'a>> {
        Ok(Later {
            care,
            made: HashMap::new(),
            laid_over: HashMap::new(),
            names: HashMap::new(),
            held: HashSet::new(),
            unanswered: HashMap::new(),
            sharers: find_sharers(&care.catalog)?,
            removed: HashSet::new(),
            unnamed: HashSet::new(),
            undone: HashSet::new(),
            unmade: HashSet::new(),
            broken: HashSet::new(),
            void: Voids::new(),
        })
    }

    /// Notes a record; `doubtful` gathers what is to be looked at when all are noted.
    pub fn note(&mut self, record: Record, doubtful: &mut Vec<Doubtful>) -> Result<()> {
        for (sequence, edits) in (record.first..).zip(record.commits) {
            let stands = Edit::need_no_bytes(&edits);
            let mut removed = Vec::new();
            for edit in &edits {
                let range = self.note_name(edit)?;
                // Not by a new length of 0: the object can get new bytes, and share them.
                if stands && matches!(edit, Edit::Remove { .. } | Edit::Unstage { .. }) {
                    self.removed.extend(range.iter().map(|(object, _)| *object));
                }
                removed.extend(range);
                match edit {
                    Edit::Made { task, replica } => self.made.entry(frame_of(task)).or_default().push(*replica),
                    Edit::Share { object, extents, .. } => named(*object, extents).for_each(|frame| {
                        // The frame was written under the number of its first owner.
                        let sharers = self.sharers.entry(frame).or_insert_with(|| HashSet::from([frame.0]));
                        sharers.insert(*object);
                    }),
                    Edit::Void { sequence, edits } => self.void.entry(*sequence).or_default().extend(edits),
                    _ => {}
                }
            }
            let is_looked_at = |edit: &Edit| !matches!(edit, Edit::Put { .. }) && edit.new_extents().is_some();
            if stands {
                self.lay_over(sequence, removed);
            } else if !removed.is_empty() || edits.iter().any(is_looked_at) {
                doubtful.push(Doubtful { sequence, edits, removed });
            }
        }
        Ok(())
    }

    /// Follows what keys name, to know what object loses a range of its bytes by an edit.
    fn note_name(&mut self, edit: &Edit) -> Result<Option<(u64, Range<u64>)>> {
        let (object, range) = match edit {
            Edit::Put { key, object, .. } | Edit::Write { key, object, .. } => {
                self.names.insert(key.clone(), Some(*object));
                return Ok(None);
            }
            Edit::Rename { from, to } => {
                let object = self.named(from)?;
                self.names.insert(from.clone(), None);
                self.names.insert(to.clone(), object);
                return Ok(None);
            }
            // None of its bytes are needed: their space may have been freed before a mark covered the removal.
            Edit::Remove { key } => (self.named(key)?, 0..u64::MAX),
            Edit::Unstage { object } => (Some(*object), 0..u64::MAX),
            Edit::SetLength { key, length, .. } => (self.named(key)?, *length..u64::MAX),
            Edit::Clear { key, start, end, .. } => (self.named(key)?, *start..*end),
            Edit::Uncache { object, start, end, .. } => (Some(*object), *start..*end),
            _ => return Ok(None),
        };
        if let Edit::Remove { key } = edit {
            self.names.insert(key.clone(), None);
        }
        Ok(object.map(|object| (object, range)))
    }

    fn lay_over(&mut self, sequence: u64, ranges: impl IntoIterator<Item = (u64, Range<u64>)>) {
        for (object, range) in ranges {
            self.laid_over.entry(object).or_default().push((sequence, range));
        }
    }

    /// Returns whether nothing names the frame in the end, because its object is removed after commit `sequence`, or all objects that
    /// have shared it are removed.
    pub fn is_removed(&self, task: &Task, sequence: u64) -> bool {
        match self.sharers.get(&frame_of(task)) {
            Some(sharers) => sharers.is_subset(&self.removed),
            None => self.is_laid_over(task.object, sequence, 0..u64::MAX),
        }
    }

    fn named(&self, key: &[u8]) -> Result<Option<u64>> {
        match self.names.get(key) {
            Some(object) => Ok(*object),
            None => Ok(self.care.catalog.object(key)?.map(|object| object.id)),
        }
    }

    /// Notes what commits that are carried out lay over others or remove. A commit that is void excuses the loss of no byte: without
    /// it, the byte is needed. Whether one is void may depend on later ones, and on earlier ones that staged its extents. So all are
    /// noted, and those that are void then are taken out, until none is.
    pub fn keep(&mut self, mut doubtful: Vec<Doubtful>) {
        doubtful.retain(|commit| !self.void.contains_key(&commit.sequence));
        for Doubtful { sequence, edits, removed } in &mut doubtful {
            self.lay_over(*sequence, std::mem::take(removed));
            for edit in edits.iter() {
                if let Edit::Merge { object, extents, .. } | Edit::Write { object, extents, .. } = edit {
                    self.lay_over(*sequence, extents.iter().map(|new| (*object, new.extent.offset..new.extent.end())));
                }
            }
        }
        loop {
            let (void, left): (Vec<_>, Vec<_>) =
                doubtful.into_iter().partition(|commit| self.lost(commit.sequence, &commit.edits));
            self.broken.clear();
            if void.is_empty() {
                return;
            }
            let void: HashSet<u64> = void.iter().map(|commit| commit.sequence).collect();
            self.laid_over.values_mut().for_each(|ranges| ranges.retain(|(later, _)| !void.contains(later)));
            doubtful = left;
        }
    }

    /// Whether a commit names bytes that are lost, and does not give them back itself.
    pub fn lost<'e>(&mut self, sequence: u64, edits: impl IntoIterator<Item = &'e Edit> + Clone) -> bool {
        !Edit::need_no_bytes(edits.clone()) && edits.into_iter().any(|edit| self.is_lost(sequence, edit))
    }

    /// Notes whether an edit is applied or void. Call it in the order of the commits.
    pub fn note_outcome(&mut self, edit: &Edit, is_void: bool) {
        if let Edit::Put { object, .. } = edit
            && is_void
        {
            self.unmade.insert(*object);
        }
        match edit {
            Edit::Put { key, .. } | Edit::Rename { to: key, .. } if is_void => {
                self.undone.insert(key.clone());
            }
            // An older object moves instead.
            Edit::Rename { from, to } if self.undone.remove(from) => {
                self.undone.insert(to.clone());
            }
            Edit::Put { key, .. } | Edit::Rename { to: key, .. } | Edit::Remove { key } => {
                self.undone.remove(key);
            }
            _ => {}
        }
        let Some((object, extents)) = edit.new_extents() else { return };
        match (is_void, edit) {
            (true, Edit::Share { .. }) => {}
            (true, _) => self.unnamed.extend(named(object, extents)),
            (false, Edit::Share { .. }) => named(object, extents).for_each(|frame| {
                self.unnamed.remove(&frame);
            }),
            (false, _) => {}
        }
    }

    /// Returns whether an edit changes an object that is not there. It must not change an older object instead, nor make a part of the lost
    /// one: a durable write makes the whole object durable, so this one was not acknowledged. A removal and a rename are carried
    /// out: a later commit may have put another object under the key.
    pub fn is_of_undone(&self, edit: &Edit) -> bool {
        match edit {
            Edit::SetLength { key, .. } | Edit::Clear { key, .. } | Edit::SetAttributes { key, .. } => {
                self.undone.contains(key)
            }
            Edit::Write { object, .. } | Edit::Merge { object, .. } | Edit::Uncache { object, .. } => {
                self.unmade.contains(object)
            }
            _ => false,
        }
    }

    /// Returns whether no object names a frame, because the commit that wrote it is void. Its replicas must not be freed,
    /// because a later copy may name them.
    pub fn is_unnamed(&self, task: &Task) -> bool {
        self.unnamed.contains(&frame_of(task))
    }

    fn is_lost(&mut self, sequence: u64, edit: &Edit) -> bool {
        let Some((object, extents)) = edit.new_extents() else { return false };
        let mut lost = self.broken.contains(&object);
        for new in extents {
            let range = new.extent.offset..new.extent.end();
            lost = lost || !self.holds(object, new) && !self.is_laid_over(object, sequence, range);
        }
        // A `put` whose staged extents are left out must be left out as a whole. A range write stands alone.
        if lost && matches!(edit, Edit::Stage { .. } | Edit::Share { .. }) {
            self.broken.insert(object);
        }
        lost
    }

    fn holds(&mut self, object: u64, new: &NewExtent) -> bool {
        let (extent, frame) = (&new.extent, frame_in(object, &new.extent));
        if self.held.contains(&frame) {
            return true;
        }
        // One that is not found is looked for again: another commit may list other replicas of it.
        let later = self.made.get(&frame).into_iter().flatten();
        let mut replicas = extent.replicas.iter().chain(later);
        let is_held = replicas.any(|replica| {
            let found = self.care.find(object, extent, replica);
            if found.is_err() {
                self.unanswered.insert(frame, replica.target);
            }
            found.unwrap_or(false)
        });
        if is_held {
            self.held.insert(frame);
        }
        is_held
    }

    /// Returns a target that may hold bytes of a lost edit: it did not answer.
    pub fn unanswered(&self, edit: &Edit) -> Option<TargetId> {
        let (object, extents) = edit.new_extents()?;
        named(object, extents).find_map(|frame| self.unanswered.get(&frame).copied())
    }

    fn is_laid_over(&self, object: u64, sequence: u64, range: Range<u64>) -> bool {
        let Some(writes) = self.laid_over.get(&object) else { return false };
        let mut at = range.start;
        while at < range.end {
            match writes.iter().find(|(later, range)| *later > sequence && range.contains(&at)) {
                Some((_, range)) => at = range.end,
                None => return false,
            }
        }
        true
    }
}

/// Returns the objects that name each shared frame. A staged object may name any of them.
fn find_sharers(catalog: &Catalog) -> Result<HashMap<FrameId, HashSet<u64>>> {
    let mut sharers: HashMap<FrameId, HashSet<u64>> = HashMap::new();
    let staged: HashSet<u64> = catalog.staged()?.into_iter().map(|(object, _)| object).collect();
    catalog.each_shared_frame(|name, _| {
        sharers.insert(frame_of(&name), staged.clone());
    })?;
    if !sharers.is_empty() {
        catalog.each_object(b"", |_, object, extents| {
            for extent in extents.iter().filter(|extent| extent.source.is_some()) {
                sharers.entry(frame_in(object.id, extent)).or_default().insert(object.id);
            }
            Ok::<_, Error>(true)
        })?;
    }
    Ok(sharers)
}

/// Returns the frames that the extents of an object name.
fn named(object: u64, extents: &[NewExtent]) -> impl Iterator<Item = FrameId> {
    extents.iter().map(move |new| frame_in(object, &new.extent))
}
