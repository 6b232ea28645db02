//! Which commits of a log name bytes that no target holds any more, and that nothing later stands in for.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::rebuild::{FrameId, frame_of};
use crate::catalog::{Edit, NewExtent, Replica, Voids};
use crate::log::Record;
use crate::store::Inner;

/// What a log goes on to say of bytes that it has named.
pub(super) struct Later<'a> {
    inner: &'a Inner,
    /// Replicas that were made later.
    made: HashMap<FrameId, Vec<Replica>>,
    /// Ranges of objects that later commits hold as new frames, of the same bytes.
    merged: HashMap<u64, Vec<(u64, Range<u64>)>>,
    /// Objects that were staged in part only.
    broken: HashSet<u64>,
    /// What an earlier replay found lost.
    pub void: Voids,
}

impl<'a> Later<'a> {
    pub fn new(inner: &'a Inner) -> Later<'a> {
        Later { inner, made: HashMap::new(), merged: HashMap::new(), broken: HashSet::new(), void: Voids::new() }
    }

    /// Notes a record; `merges` gathers what is to be looked at when all are noted.
    pub fn note(&mut self, record: Record, merges: &mut Vec<(u64, Edit)>) {
        for (sequence, edits) in (record.first..).zip(record.commits) {
            for edit in edits {
                match edit {
                    Edit::Made { task, replica } => self.made.entry(frame_of(&task)).or_default().push(replica),
                    Edit::Merge { .. } => merges.push((sequence, edit)),
                    Edit::Void { sequence, edits } => self.void.entry(sequence).or_default().extend(edits),
                    _ => {}
                }
            }
        }
    }

    /// Notes those merges of which no bytes are lost.
    pub fn keep(&mut self, merges: Vec<(u64, Edit)>) {
        for (sequence, edit) in merges {
            if let Edit::Merge { object, extents, .. } = edit
                && extents.iter().all(|new| self.holds(object, new))
            {
                let ranges = extents.iter().map(|new| (sequence, new.extent.offset..new.extent.end()));
                self.merged.entry(object).or_default().extend(ranges);
            }
        }
    }

    /// Whether a commit names bytes that are lost, and does not give them back itself.
    pub fn lost(&mut self, sequence: u64, edits: &[(u32, &Edit)]) -> bool {
        let given_back = edits.iter().any(|(_, edit)| matches!(edit, Edit::Unstage { .. }));
        !given_back && edits.iter().any(|(_, edit)| self.is_lost(sequence, edit))
    }

    fn is_lost(&mut self, sequence: u64, edit: &Edit) -> bool {
        let (object, extents) = match edit {
            Edit::Stage { object, extents, .. }
            | Edit::Put { object, extents, .. }
            | Edit::Write { object, extents, .. }
            | Edit::Merge { object, extents, .. } => (*object, extents),
            _ => return false,
        };
        let gone = |new: &NewExtent| {
            !self.holds(object, new) && !self.is_merged(object, sequence, new.extent.offset..new.extent.end())
        };
        let lost = self.broken.contains(&object) || extents.iter().any(gone);
        // A `put` whose staged extents were left out must be left out with them; a range write stands alone.
        if lost && matches!(edit, Edit::Stage { .. }) {
            self.broken.insert(object);
        }
        lost
    }

    fn holds(&self, object: u64, new: &NewExtent) -> bool {
        let extent = &new.extent;
        let later = self.made.get(&(object, extent.frame())).into_iter().flatten();
        extent.replicas.iter().chain(later).any(|replica| self.inner.holds(object, extent, replica))
    }

    fn is_merged(&self, object: u64, sequence: u64, range: Range<u64>) -> bool {
        let Some(merged) = self.merged.get(&object) else { return false };
        let mut at = range.start;
        while at < range.end {
            match merged.iter().find(|(later, range)| *later > sequence && range.contains(&at)) {
                Some((_, range)) => at = range.end,
                None => return false,
            }
        }
        true
    }
}
