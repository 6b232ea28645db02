//! Finds the frames whose bytes a change puts in the place of others.

use terrace_format::{Change, Edit, Extent};

use super::Catalog;
use crate::Result;

impl Catalog {
    /// Returns extents whose frames a change puts in the place of others: the bytes of an object that is overwritten, or of one that gets
    /// its name, and a replica that takes another one's place. Bytes that are only removed, or added, are not among them.
    pub fn find_replacing(&self, change: &Change) -> Result<Vec<Extent>> {
        let mut found = Vec::new();
        let drops_some = change.edits.iter().any(|edit| matches!(edit, Edit::Lost { .. }));
        for edit in &change.edits {
            match edit {
                Edit::Put { key, object, staged, .. } if self.names_another(key, *object)? => {
                    found.extend(new_extents(edit));
                    if *staged {
                        found.extend(self.staged_extents(*object)?);
                    }
                }
                Edit::Share { key, object, .. } if self.names_another(key, *object)? => found.extend(new_extents(edit)),
                Edit::Write { key, .. } | Edit::Merge { key, .. } => {
                    for extent in new_extents(edit) {
                        let before = self.locate(key, extent.offset, extent.end())?;
                        found.extend(before.filter(|(_, before)| !before.is_empty()).map(|_| extent));
                    }
                }
                Edit::Rename { from, to } if from != to && self.object(to)?.is_some() => {
                    found.extend(self.locate(from, 0, u64::MAX)?.into_iter().flat_map(|(_, extents)| extents));
                }
                Edit::Made { task, replica } => {
                    let Some(owed) = self.owed_replica(task)? else { continue };
                    let frame = self.frame(task, &owed.key)?;
                    let is_same = |extent: &Extent| extent.replicas.iter().any(|other| other.target == task.target);
                    let replaces = |extent: &Extent| drops_some || owed.then_drop.is_some() || is_same(extent);
                    let made = |extent| Extent { replicas: [*replica].into_iter().collect(), ..extent };
                    found.extend(frame.filter(replaces).map(made));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns whether a key names an object with bytes that is not this one.
    fn names_another(&self, key: &[u8], object: u64) -> Result<bool> {
        Ok(self.object(key)?.is_some_and(|named| named.id != object && named.length > 0))
    }
}

fn new_extents(edit: &Edit) -> impl Iterator<Item = Extent> {
    let new = edit.new_extents().map_or(&[][..], |(_, extents)| extents);
    new.iter().map(|new| new.extent.clone())
}
