//! Bad replicas that a scrub has found and not replaced. Their list in the record of scrubs tells which of them are gone since.

use terrace_catalog::{Catalog, Task};
use terrace_format::key;
use terrace_tier::Place;

use crate::Result;

/// The most replicas that a round of scrubs lists. Others count until the next round.
pub const MAX_LISTED_REPLICAS: usize = 1000;

/// A bad replica that no good one has replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadReplica {
    pub key: Vec<u8>,
    pub task: Task,
    pub place: Place,
}

impl BadReplica {
    /// Returns its line in the list: the key in hexadecimal digits, then the object, the offset and the write of the frame, the target, the
    /// segment, and the offset in that.
    pub fn line(&self) -> String {
        let Task { object, frame_offset, write, target } = self.task;
        let Place { segment, offset, .. } = self.place;
        format!("{} {object} {frame_offset} {write} {target} {segment} {offset}", key::hex(&self.key))
    }

    /// Reads a line. `None` if it is damaged.
    pub fn parse(line: &str) -> Option<BadReplica> {
        let mut parts = line.split(' ');
        let key = key::unhex(parts.next()?)?;
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (object, frame_offset, write) = (number()?, number()?, number()?);
        let task = Task { object, frame_offset, write, target: number()?.try_into().ok()? };
        Some(BadReplica { key, task, place: Place { segment: number()?, offset: number()?, length: 0 } })
    }

    /// Returns whether the object with the key still names it: nobody has put or removed that since, or replaced the replica.
    pub fn is_named(&self, catalog: &Catalog) -> Result<bool> {
        let extent = catalog.frame(&self.task, &self.key)?;
        Ok(extent.is_some_and(|extent| {
            extent.replicas.iter().any(|replica| {
                let Place { segment, offset, .. } = replica.place;
                (replica.target, segment, offset) == (self.task.target, self.place.segment, self.place.offset)
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_a_damaged_one_is_left_out() {
        let task = Task { object: 1, frame_offset: 2, write: 3, target: 4 };
        let place = Place { segment: u64::MAX, offset: 6, length: 0 };
        let bad = BadReplica { key: b"a\n\xff".to_vec(), task, place };
        assert_eq!(BadReplica::parse(&bad.line()), Some(bad));
        for damaged in ["", "zz 1 2 3 4 5 6", "61 1 2 3 4 5", "61 1 2 3 70000 5 6", "61 1 2 3 -4 5 6"] {
            assert_eq!(BadReplica::parse(damaged), None, "{damaged}");
        }
    }
}
