//! Edits of the replicas of frames: made, pending, lost, and freed.

use terrace_format::{Owed, Place, Replica, TargetId, Task};

use super::Applier;
use super::frames::Edited;
use crate::Result;
use crate::keys;

impl Applier<'_, '_> {
    pub(super) fn made(&mut self, task: &Task, replica: &Replica) -> Result<()> {
        let owed = self.owed(task)?;
        self.count(replica)?;
        let Some(owed) = owed else { return self.bury(task.object, replica.target, replica.place) };
        // A plain file is one object's. The frame was shared after the file was begun, and stays owed.
        if replica.place.is_plain() && self.shared(task)?.is_some() {
            return self.bury(task.object, replica.target, replica.place);
        }
        self.drop_owed(task)?;
        let mut replaced = Vec::new();
        let found = self.edit_frame(&owed.key, task, |extent| {
            replaced.extend(
                extent.replicas.iter().copied().filter(|r| r.target == task.target || Some(r.target) == owed.then_drop),
            );
            extent.replicas.retain(|r| r.target != task.target && Some(r.target) != owed.then_drop);
            extent.replicas.push(*replica);
        })?;
        let Some(Edited { objects, .. }) = found else {
            return self.bury(task.object, replica.target, replica.place);
        };
        if replica.place.is_plain() {
            self.hold_plain(task, &owed.key, replica.place.segment)?;
        }
        for old in replaced.iter().filter(|old| old.place.is_plain()) {
            self.unfollow_file(old.target, &owed.key, old.place.segment)?;
        }
        replaced.sort_unstable_by_key(|r| (r.target, r.place));
        replaced.dedup();
        for old in replaced {
            self.bury_of(objects.clone(), self.is_removing, old.target, old.place)?;
        }
        Ok(())
    }

    pub(super) fn owe(&mut self, task: &Task, key: &[u8], raw_len: u32, then_drop: Option<TargetId>) -> Result<()> {
        // If the replica was owed to another target before, it has been missing since then.
        let first = Task { target: 0, ..*task };
        let mut since = self.sequence;
        for other in self.tasks(&keys::owed(&first)[..25])? {
            if let Some(owed) = self.owed(&other)? {
                since = since.min(owed.since);
            }
        }
        self.put_owed(task, &Owed { key: key.to_vec(), raw_len, then_drop, since })
    }

    /// Removes a lost replica from its extents. With `owed`, it becomes pending on that target.
    pub(super) fn lose(&mut self, task: &Task, key: &[u8], place: Place, owed: Option<TargetId>) -> Result<()> {
        let mut is_taken = false;
        let edited = self.edit_frame(key, task, |extent| {
            // The process that gives up a replica has seen others, but these may have been given up meanwhile.
            let is_last = owed.is_none() && extent.replicas.len() == 1;
            let is_it = |r: &Replica| (r.target, r.place) == (task.target, place);
            is_taken = !is_last && extent.replicas.iter().any(is_it);
            extent.replicas.retain(|r| is_last || !is_it(r));
        })?;
        // Two processes, or two owners of a shared frame, may give up one replica. Its place is freed once.
        let Some(Edited { raw_len, objects }) = edited.filter(|_| is_taken) else { return Ok(()) };
        self.bury_of(objects, self.is_removing, task.target, place)?;
        if place.is_plain() {
            self.unfollow_file(task.target, key, place.segment)?;
        }
        let Some(target) = owed else { return Ok(()) };
        let owed = Owed { key: key.to_vec(), raw_len, then_drop: None, since: self.sequence };
        self.put_owed(&Task { target, ..*task }, &owed)
    }

    pub(super) fn freed(&mut self, target: TargetId, places: &[(u64, Place)]) -> Result<()> {
        for (sequence, place) in places {
            self.records.delete(self.txn, &keys::freed(target, *sequence, place.segment, place.offset))?;
        }
        Ok(())
    }

    pub(super) fn discarded(&mut self, target: TargetId, segment: u64) -> Result<()> {
        self.counts.retain(|(known, _)| known != &(target, segment));
        self.records.delete(self.txn, &keys::segment(target, segment))?;
        Ok(())
    }
}
