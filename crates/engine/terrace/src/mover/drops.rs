//! Drops replicas. Several processes may move replicas of one frame at the same time, and each plans from what it sees. So
//! the expectations of the commits protect a frame's last good replica, because commits are ordered: each names the one that was read.

use std::collections::HashSet;

use terrace_catalog::{Change, Edit, Expect, Owed, TargetId, Task};

use super::Mover;
use super::beside::{GoodReplicas, frame_of};
use crate::Result;
use crate::report::{Lacking, TierState};

/// The replicas that count when another one leaves.
#[derive(Clone, Copy)]
pub(super) enum Staying<'g> {
    /// Only the `good` ones count: they were read. Those to be made `again` where they are must still be there.
    Read { good: &'g GoodReplicas, again: &'g HashSet<Task> },
    /// All count. The tier is full, and writes wait, or the bytes can be fetched again.
    Trusted,
}

impl Mover {
    /// Commits edits that move or drop replicas. The edits of a frame that would lose its last persistent replica are left
    /// out, or its last one that is known to be good. Returns the number of such frames. `lacking` counts extents that are left with fewer
    /// replicas than they are to have.
    pub(super) fn commit_moves(&self, edits: Vec<Edit>, lacking: Lacking, staying: Staying<'_>) -> Result<u64> {
        if edits.is_empty() {
            return Ok(0);
        }
        let lasting = self.lasting_targets();
        let dropped = edits.iter().filter_map(|edit| match edit {
            Edit::Lost { task, .. } if lasting.contains(&task.target) => Some(task.object),
            _ => None,
        });
        let dropped: Vec<u64> = dropped.collect();
        if !dropped.is_empty() {
            // The remaining replicas must be as durable as those that are dropped.
            self.journal.sync_files_of(&dropped)?;
        }
        self.note_will_lack(lacking);
        // A replica that could not be synced, or whose node has gone, is no reason to drop another one.
        let is_there = |target: &TargetId| self.tiers.device(*target).is_ok_and(|d| d.state() != TierState::Away);
        let kept: Vec<TargetId> = lasting.iter().copied().filter(is_there).collect();
        let frames = edits.chunk_by(|a, b| changed_frame(a).is_some() && changed_frame(a) == changed_frame(b));
        let frames = frames.map(|edits| (self.expect_others(edits, &lasting, &kept, staying), edits));
        let frames: Vec<_> = frames.collect();
        let expect = frames.iter().flat_map(|(expect, _)| expect.clone()).collect();
        match self.catalog.commit(Change { expect, edits: edits.clone() }) {
            Err(terrace_catalog::Error::Conflict { .. }) => {}
            done => return Ok(done.map(|_| 0)?),
        }
        // Without the frames in conflict.
        let changes: Vec<Change> =
            frames.into_iter().map(|(expect, edits)| Change { expect, edits: edits.to_vec() }).collect();
        let mut left = 0;
        for (change, result) in changes.iter().zip(self.catalog.commit_many(&changes)?) {
            match result {
                // Nothing is left of one that was overwritten or removed.
                Err(terrace_catalog::Error::Conflict { .. }) => left += u64::from(self.is_any_frame_there(change)?),
                result => drop(result?),
            }
        }
        if left > 0 {
            tracing::warn!(
                frames = left,
                "replicas were left as they are, because others of the same bytes moved at the same time, or could not be synced; repeat the move if it is still wanted"
            );
        }
        Ok(left)
    }

    /// Returns whether a frame that a change expects something of exists.
    fn is_any_frame_there(&self, change: &Change) -> Result<bool> {
        for expect in &change.expect {
            if let Expect::HasOther { task, key, .. } = expect
                && self.catalog.frame(task, key)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the expectations of these edits. A frame that loses a replica keeps the one that was read. If none was, and the replica is on
    /// a target that lasts, the frame keeps one on a `kept` target. A replica that another one replaces is still there: if another process has
    /// dropped it, the frame would get one more than it is to have.
    fn expect_others(
        &self,
        edits: &[Edit],
        lasting: &[TargetId],
        kept: &[TargetId],
        staying: Staying<'_>,
    ) -> Vec<Expect> {
        let expected = edits.iter().filter_map(|edit| {
            let (task, key) = match edit {
                Edit::Lost { task, key, owed: None, .. } => (task, key),
                Edit::Owe { task, key, then_drop, .. } => {
                    let is_again = matches!(staying, Staying::Read { again, .. } if again.contains(task));
                    let replaced = if is_again { Some(task.target) } else { *then_drop };
                    let there =
                        |target| Expect::HasOther { task: frame_of(*task), key: key.to_vec(), among: vec![target] };
                    return replaced.map(there);
                }
                _ => return None,
            };
            let among = match staying {
                // It can be fetched again.
                _ if self.planning.rules.now().origin_of(key).is_some() => return None,
                Staying::Read { good, .. } => good
                    .get(&frame_of(*task))
                    .copied()
                    .into_iter()
                    .filter(|target| !lasting.contains(target) || kept.contains(target))
                    .collect(),
                Staying::Trusted if self.must_keep_persistent(key, task.target, lasting) => kept.to_vec(),
                Staying::Trusted => return None,
            };
            Some(Expect::HasOther { task: *task, key: key.to_vec(), among })
        });
        expected.collect()
    }

    /// Returns the expectation for registering a volatile replica that replaces a persistent one.
    pub(super) fn expect_when_made(&self, task: &Task, owed: &Owed) -> Vec<Expect> {
        let lasting = self.lasting_targets();
        let is_guarded = |target: TargetId| self.must_keep_persistent(&owed.key, target, &lasting);
        if lasting.contains(&task.target) || !owed.then_drop.is_some_and(is_guarded) {
            return Vec::new();
        }
        vec![Expect::KeepsOne { task: *task, key: owed.key.clone(), among: lasting }]
    }

    /// Registers a replica, and keeps the replica that it was to replace, because that is the last persistent one.
    pub(super) fn register_beside(&self, change: &Change) -> Result<()> {
        let Some(Expect::KeepsOne { task, key, .. }) = change.expect.first() else { return Ok(()) };
        let Some(extent) = self.catalog.frame(task, key)? else { return Ok(()) };
        let key = serde_bytes::ByteBuf::from(key.clone());
        let owe = Edit::Owe { task: *task, key, raw_len: extent.raw_len, then_drop: None };
        let edits = std::iter::once(owe).chain(change.edits.iter().cloned()).collect();
        self.catalog.commit(Change { expect: Vec::new(), edits })?;
        Ok(())
    }

    /// Returns whether this object's replica on a target may be dropped only if another persistent one exists.
    fn must_keep_persistent(&self, key: &[u8], target: TargetId, lasting: &[TargetId]) -> bool {
        lasting.contains(&target) && !self.planning.rules.now().may_be_volatile(key)
    }

    fn lasting_targets(&self) -> Vec<TargetId> {
        self.tiers.devices.iter().filter(|device| self.tiers.tier(device).persistent).map(|device| device.id).collect()
    }
}

/// Returns the frame that an edit changes.
fn changed_frame(edit: &Edit) -> Option<Task> {
    match edit {
        Edit::Owe { task, .. } | Edit::Forgive { task } | Edit::Lost { task, .. } => Some(frame_of(*task)),
        _ => None,
    }
}
