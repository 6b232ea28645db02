//! Finds the commits of a log that name lost bytes: bytes that no target holds any more, and that no later commit replaces
//! or removes.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use terrace_catalog::log::Record;
use terrace_catalog::{Edit, NewExtent, Replica, Task, Voids};

use super::Care;
use super::rebuild::{FrameId, frame_in, frame_of};
use crate::Result;

/// The later records of a log about the bytes that its earlier records name.
pub(super) struct Later<'a> {
    care: &'a Care,
    /// Replicas that later commits registered.
    made: HashMap<FrameId, Vec<Replica>>,
    /// Ranges of objects that later commits overwrite or cut off. The bytes that were there before are not needed.
    laid_over: HashMap<u64, Vec<(u64, Range<u64>)>>,
    /// The object of each key after the noted records, if they name the key.
    names: HashMap<Vec<u8>, Option<u64>>,
    /// Whether any replica of a frame exists.
    held: HashMap<FrameId, bool>,
    /// Frames that are or become shared.
    shared: HashSet<FrameId>,
    /// Frames whose commit is void and that no copy of the object names.
    unnamed: HashSet<FrameId>,
    /// Objects with a lost staged part.
    broken: HashSet<u64>,
    /// The commits that an earlier replay found lost.
    pub void: Voids,
}

impl<'a> Later<'a> {
    pub fn new(care: &'a Care) -> Result<Later<'a>> {
        let mut shared = HashSet::new();
        care.catalog.each_shared_frame(|name, _| {
            shared.insert(frame_of(&name));
        })?;
        Ok(Later {
            care,
            made: HashMap::new(),
            laid_over: HashMap::new(),
            names: HashMap::new(),
            held: HashMap::new(),
            shared,
            unnamed: HashSet::new(),
            broken: HashSet::new(),
            void: Voids::new(),
        })
    }

    /// Notes a record. `writes` gathers the writes, which are checked once all records are noted.
    pub fn note(&mut self, record: Record, writes: &mut Vec<(u64, Edit)>) -> Result<()> {
        for (sequence, edits) in (record.first..).zip(record.commits) {
            for edit in edits {
                self.note_name(sequence, &edit)?;
                match edit {
                    Edit::Made { task, replica } => self.made.entry(frame_of(&task)).or_default().push(replica),
                    Edit::Share { object, ref extents, .. } => self.shared.extend(named(object, extents)),
                    Edit::Merge { .. } | Edit::Write { .. } => writes.push((sequence, edit)),
                    Edit::Void { sequence, edits } => self.void.entry(sequence).or_default().extend(edits),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Follows the keys' objects, because a truncation names its object by key.
    fn note_name(&mut self, sequence: u64, edit: &Edit) -> Result<()> {
        match edit {
            Edit::Put { key, object, .. } | Edit::Write { key, object, .. } => {
                self.names.insert(key.clone(), Some(*object));
            }
            Edit::Rename { from, to } => {
                let object = self.named(from)?;
                self.names.insert(from.clone(), None);
                self.names.insert(to.clone(), object);
            }
            Edit::Remove { key } => {
                // None of its bytes are needed: their space may have been freed before a mark covered the removal.
                if let Some(object) = self.named(key)? {
                    self.note_removal(object, sequence);
                }
                self.names.insert(key.clone(), None);
            }
            Edit::Unstage { object } => self.note_removal(*object, sequence),
            Edit::SetLength { key, length, .. } => {
                if let Some(object) = self.named(key)? {
                    self.laid_over.entry(object).or_default().push((sequence, *length..u64::MAX));
                }
            }
            Edit::Clear { key, start, end, .. } => {
                if let Some(object) = self.named(key)? {
                    self.laid_over.entry(object).or_default().push((sequence, *start..*end));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn note_removal(&mut self, object: u64, sequence: u64) {
        self.laid_over.entry(object).or_default().push((sequence, 0..u64::MAX));
    }

    /// Returns whether later commits remove all bytes that the object had at commit `sequence`.
    pub fn is_removed(&self, object: u64, sequence: u64) -> bool {
        self.is_laid_over(object, sequence, 0..u64::MAX)
    }

    /// Returns whether a frame is shared, or was shared at any time in the log.
    pub fn is_shared(&self, task: &Task) -> bool {
        self.shared.contains(&frame_of(task))
    }

    fn named(&self, key: &[u8]) -> Result<Option<u64>> {
        match self.names.get(key) {
            Some(object) => Ok(*object),
            None => Ok(self.care.catalog.object(key)?.map(|object| object.id)),
        }
    }

    /// Notes the writes whose bytes exist.
    pub fn keep(&mut self, writes: Vec<(u64, Edit)>) {
        for (sequence, edit) in writes {
            if let Edit::Merge { object, extents, .. } | Edit::Write { object, extents, .. } = edit
                && extents.iter().all(|new| self.holds(object, new))
            {
                let ranges = extents.iter().map(|new| (sequence, new.extent.offset..new.extent.end()));
                self.laid_over.entry(object).or_default().extend(ranges);
            }
        }
    }

    /// Returns whether a commit names bytes that are lost, and does not remove them itself.
    pub fn lost(&mut self, sequence: u64, edits: &[(u32, &Edit)]) -> bool {
        !Edit::need_no_bytes(edits.iter().map(|(_, edit)| *edit))
            && edits.iter().any(|(_, edit)| self.is_lost(sequence, edit))
    }

    /// Notes whether an edit is applied or void. Call it in the order of the commits.
    pub fn note_outcome(&mut self, edit: &Edit, is_void: bool) {
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
        let (care, extent, frame) = (self.care, &new.extent, frame_in(object, &new.extent));
        let later = self.made.get(&frame).into_iter().flatten();
        let look = || extent.replicas.iter().chain(later).any(|replica| care.holds(object, extent, replica));
        *self.held.entry(frame).or_insert_with(look)
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

/// Returns the frames that the extents of an object name.
fn named(object: u64, extents: &[NewExtent]) -> impl Iterator<Item = FrameId> {
    extents.iter().map(move |new| frame_in(object, &new.extent))
}
