//! Dead places: commits have freed them, and their targets still have to get them back.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use terrace_format::Place;
use terrace_format::TargetId;

use super::{Catalog, decode, keys};
use crate::Result;

/// The longest range of object numbers in one record. A lease on any object in the range delays the whole record, so the numbers
/// must be near each other, like those of a key that is put repeatedly.
const MAX_OBJECT_SPAN: u64 = 4096;

/// The record of a dead place: that of one frame, or of adjacent frames that died within one second. In the second case the
/// record's key names the last commit that freed one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    /// Bytes from the start of the first frame to the end of the last one.
    pub length: u32,
    /// The time at which it was queued: seconds since 1970.
    pub time: u64,
    /// The object whose bytes it held. If there are several, the lowest number.
    pub object: u64,
    /// The highest number of such an object. 0 if there is only one.
    last: u64,
    /// Whether it was freed by commits that removed all bytes of these objects. A removal needs no bytes, so no power cut can
    /// undo it once the log holds it durably. Such a place may be freed before a sync mark covers the commit.
    by_removal: bool,
}

impl Dead {
    /// Makes the record of one frame, which held bytes of these objects.
    pub(super) fn new(length: u32, time: u64, objects: RangeInclusive<u64>, by_removal: bool) -> Dead {
        let (object, last) = objects.into_inner();
        Dead { length, time, object, last: if last == object { 0 } else { last }, by_removal }
    }

    /// Reads a record. Records of older versions lack the last one, two or three fields.
    pub(super) fn read(value: &[u8]) -> Result<Dead> {
        let read = |more: &[u8]| decode(&[value, more].concat(), "a freed place's record");
        let older = [&[0][..], &[0, 0], &[0, 0, 0]].into_iter();
        older.fold(read(&[]), |found, zeros| found.or_else(|_| read(zeros)))
    }

    /// A range that contains the numbers of its objects.
    fn objects(&self) -> RangeInclusive<u64> {
        self.object..=self.last.max(self.object)
    }

    /// Joins this record, whose place is `before`, with `dead` at `place`, if they can share a record. The older one then waits
    /// for the newer one, which is a second at most.
    pub(super) fn joined_by(&self, before: Place, place: Place, dead: &Dead) -> Option<Dead> {
        let follows = place.follows(&Place { length: self.length, ..before });
        let (mine, others) = (self.objects(), dead.objects());
        let (object, last) = (*mine.start().min(others.start()), *mine.end().max(others.end()));
        if !follows || self.time != dead.time || self.by_removal != dead.by_removal || last - object > MAX_OBJECT_SPAN {
            return None;
        }
        let length = u32::try_from(place.end() - before.offset).ok()?;
        Some(Dead { length, object, last: if last == object { 0 } else { last }, ..*self })
    }
}

/// The dead places of a target.
pub struct DeadPlaces(Vec<Place>);

impl DeadPlaces {
    /// Returns whether the frame at this place is dead.
    pub fn contains(&self, place: Place) -> bool {
        let next = self.0.partition_point(|dead| (dead.segment, dead.offset) <= (place.segment, place.offset));
        let before = next.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|dead| dead.segment == place.segment && place.end() <= dead.end())
    }

    /// The places, in order. One may be that of several frames.
    pub fn iter(&self) -> impl Iterator<Item = Place> {
        self.0.iter().copied()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|place| u64::from(place.length)).sum()
    }
}

impl Catalog {
    /// Returns up to `limit` places on `target` that were freed before `time`, by commits up to `sequence` or by later removals,
    /// and that no lease pins. A place may be that of several adjacent frames.
    pub fn dead(&self, target: TargetId, sequence: u64, time: u64, limit: usize) -> Result<Vec<(u64, Place)>> {
        self.find_dead(target, time, limit, |at, dead| at <= sequence || dead.by_removal)
    }

    /// Like [`Catalog::dead`], for places that the floor of a shared log allows to give back: no node's index names them.
    pub fn dead_below_floor(&self, target: TargetId, time: u64, limit: usize) -> Result<Vec<(u64, Place)>> {
        let floor = self.floor()?;
        self.find_dead(target, time, limit, |at, _| at <= floor)
    }

    /// Like [`Catalog::dead`], for places that may be given back now, as far as this catalog knows. Without a shared log, the caller
    /// makes the log durable first.
    pub fn freeable(&self, target: TargetId, time: u64, limit: usize) -> Result<Vec<(u64, Place)>> {
        match self.is_shared() {
            true => self.dead_below_floor(target, time, limit),
            false => self.dead(target, self.synced()?, time, limit),
        }
    }

    fn find_dead(
        &self,
        target: TargetId,
        time: u64,
        limit: usize,
        may_go: impl Fn(u64, &Dead) -> bool,
    ) -> Result<Vec<(u64, Place)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let pinned = self.pinned(&env, &txn)?;
        let mut found = Vec::new();
        for entry in env.records.prefix_iter(&txn, &keys::freed_on(target))? {
            let (key, value) = entry?;
            let dead = Dead::read(value)?;
            let Some((at, place)) = keys::freed_place(key) else { break };
            if dead.time > time || found.len() == limit {
                break;
            }
            if may_go(at, &dead) && pinned.range(dead.objects()).all(|(_, generation)| at <= *generation) {
                found.push((at, Place { length: dead.length, ..place }));
            }
        }
        Ok(found)
    }

    /// All dead places on `target`, whether leases pin them or not.
    pub fn dead_places(&self, target: TargetId) -> Result<DeadPlaces> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut places = Vec::new();
        for entry in env.records.prefix_iter(&txn, &keys::freed_on(target))? {
            let (key, value) = entry?;
            let Some((_, place)) = keys::freed_place(key) else { break };
            places.push(Place { length: Dead::read(value)?.length, ..place });
        }
        places.sort_unstable();
        Ok(DeadPlaces(places))
    }

    /// The last commit that freed one of the dead places on `target`, whether leases pin them or not.
    pub fn last_freed(&self, target: TargetId) -> Result<Option<u64>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let last = env.records.rev_prefix_iter(&txn, &keys::freed_on(target))?.next().transpose()?;
        Ok(last.and_then(|(key, _)| keys::number(key, 3)))
    }

    /// The segments of `target` with dead places that commits after `sequence` have freed.
    pub fn dying(&self, target: TargetId, sequence: u64) -> Result<HashSet<u64>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut found = HashSet::new();
        for entry in env.records.prefix_iter(&txn, &keys::freed_on(target))? {
            let (key, _) = entry?;
            if keys::number(key, 3).is_some_and(|at| at > sequence) {
                found.extend(keys::number(key, 11));
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64, length: u32) -> Place {
        Place { segment: 3, offset, length }
    }

    fn one(object: u64) -> RangeInclusive<u64> {
        object..=object
    }

    #[test]
    fn neighbours_that_die_together_share_a_record() {
        let first = Dead::new(100, 50, one(7), false);
        let joined = first.joined_by(place(8, 100), place(112, 20), &Dead::new(20, 50, one(7), false)).expect("joins");
        assert_eq!(joined, Dead::new(124, 50, one(7), false));
        let other = joined.joined_by(place(8, 124), place(136, 8), &Dead::new(8, 50, one(3), false)).expect("joins");
        assert_eq!((other.length, other.objects()), (136, 3..=7));
        // A small frame may lie between the end of one frame and the page on which a long one begins. The two were joined, and
        // freeing them destroyed the small frame between them.
        assert!(first.joined_by(place(8, 100), place(4096, 300_000), &Dead::new(300_000, 50, one(7), false)).is_none());
        let removed = Dead::new(20, 50, one(7), true);
        assert!(first.joined_by(place(8, 100), place(112, 20), &removed).is_none(), "it may be given back earlier");
        for (at, time, object) in [(120, 50, 7), (104, 50, 7), (112, 51, 7), (112, 50, 8 + MAX_OBJECT_SPAN)] {
            assert!(first.joined_by(place(8, 100), place(at, 20), &Dead::new(20, time, one(object), false)).is_none());
        }
    }

    #[test]
    fn older_records_are_read() {
        let of_two = postcard::to_stdvec(&(100_u32, 50_u64)).expect("encodes");
        let of_three = postcard::to_stdvec(&(100_u32, 50_u64, 7_u64)).expect("encodes");
        assert_eq!(Dead::read(&of_two).expect("reads"), Dead::new(100, 50, one(0), false));
        assert_eq!(Dead::read(&of_three).expect("reads"), Dead::new(100, 50, one(7), false));
        let of_four = postcard::to_stdvec(&(100_u32, 50_u64, 7_u64, 9_u64)).expect("encodes");
        assert_eq!(Dead::read(&of_four).expect("reads").objects(), 7..=9);
    }

    #[test]
    fn a_frame_in_a_dead_range_is_dead() {
        let dead = DeadPlaces(vec![place(8, 100), place(400, 50)]);
        assert!(dead.contains(place(8, 100)) && dead.contains(place(16, 50)) && dead.contains(place(408, 42)));
        assert!(!dead.contains(place(0, 8)) && !dead.contains(place(104, 20)) && !dead.contains(place(408, 43)));
        assert!(!dead.contains(Place { segment: 4, ..place(8, 100) }) && !dead.contains(place(450, 1)));
        assert_eq!(dead.bytes(), 150);
    }
}
