//! Moves that a user asks for: onto a tier, and off a tier.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use terrace_catalog::{Edit, Extent, Object, Owed, Replica, TargetId, Task, frames};
use terrace_plan::snapshot::TierSet;

use super::drain::Departing;
use super::drops::Staying;
use super::edits::{drop_replica, owe, task_at};
use super::room::HOPELESS_WAIT;
use super::{MAX_WAIT, Mover};
use crate::origins::is_at_origin;
use crate::report::Moved;
use crate::{Error, Result};

/// The approximate number of edits in a batch.
const BATCH_EDITS: usize = 1024;
/// The approximate bytes, before encoding, of the replicas that a batch makes pending.
const BATCH_BYTES: u64 = 64 << 20;

impl Mover {
    /// Carries out [`Store::stage`](crate::Store::stage).
    pub fn stage(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        let level = self.tiers.level(tier)?;
        self.move_each(prefix, |key, object, extent, edits, moved| {
            let on = |target: TargetId| self.tiers.device(target).is_ok_and(|d| d.tier == level);
            let task = task_at(object.id, extent, 0);
            let owed = self.catalog.owed_to(&task)?;
            let all = || extent.replicas.iter().map(|r| r.target).chain(owed.iter().copied());
            if all().any(on) {
                return Ok(());
            }
            let beside: Vec<TargetId> = all().collect();
            let tiers = TierSet::of([level]);
            match self.placer_for(object.id, key)?.choose_target(tiers, extent, &beside, true) {
                Some(target) => {
                    edits.push(owe(key, Task { target, ..task }, extent, None));
                    moved.made += 1;
                }
                None => moved.kept += 1,
            }
            Ok(())
        })
    }

    /// Carries out [`Store::evict`](crate::Store::evict).
    pub fn evict_prefix(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        let level = self.tiers.level(tier)?;
        let mut departing = Departing::tier(&self.tiers, level);
        self.move_off_each(prefix, |key, object, extent, edits, moved| {
            let on_level = |target| self.tiers.device(target).is_ok_and(|device| device.tier == level);
            let extent =
                &*self.mend_beside(key, object.id, extent, on_level, &mut departing.unread, &mut moved.good)?;
            let (on, off): (Vec<&Replica>, Vec<&Replica>) =
                extent.replicas.iter().partition(|replica| on_level(replica.target));
            let volatile = self.planning.rules.now().may_be_volatile(key);
            if is_at_origin(object) && !on.is_empty() {
                moved.dropped += on.len() as u64;
                match off.len() {
                    0 => edits.extend(self.uncache_frame(key, object, extent)?),
                    _ => edits.extend(on.iter().map(|replica| drop_replica(key, object.id, extent, replica))),
                }
                return Ok(());
            }
            if on.is_empty() || self.keeps_unread(key, object, extent, &departing, on.len() as u64, moved)? {
                return Ok(());
            }
            let (mut left, mut chosen) = (extent.clone(), Vec::new());
            let others = (0..self.tiers.tiers.len()).filter(|other| *other != level);
            let owed = self.owed_beside(object.id, extent)?;
            for replica in on {
                if !off.iter().any(|r| departing.may_be_read(r) && (volatile || self.outlives(r))) {
                    self.move_off(key, object.id, &mut left, &mut chosen, replica, &departing, edits, moved)?;
                    continue;
                }
                let enough =
                    left.replicas.len() + chosen.len() > usize::from(self.wanted(object.want, object.id, extent)?);
                left.replicas.retain(|r| r != replica);
                let taken = left.replicas.iter().map(|r| r.target).chain(owed.iter().copied());
                let taken: Vec<TargetId> = taken.chain(chosen.iter().copied()).collect();
                let placer = self.placer_for(object.id, key)?;
                let tiers = placer.allowed(others.clone());
                let place = || placer.choose_target_of_move(tiers, extent, &taken, true);
                // If no target takes a new replica, one that is already pending replaces this one.
                let pending = || owed.iter().copied().find(|target| self.takes(*target, extent));
                match if enough { None } else { place().or_else(pending) } {
                    Some(target) => {
                        let task = task_at(object.id, extent, target);
                        edits.push(owe(key, task, extent, Some(replica.target)));
                        chosen.push(target);
                        moved.made += 1;
                    }
                    None => edits.push(drop_replica(key, object.id, extent, replica)),
                }
                moved.dropped += 1;
            }
            // A pending replica counts only if its target has room. Otherwise nobody knows when it is made.
            let expected: Vec<&TargetId> = owed.iter().filter(|target| self.takes(**target, extent)).collect();
            let others = expected.iter().filter(|target| !chosen.contains(target)).count();
            let after = left.replicas.len() + chosen.len() + others;
            moved.count_thinned(extent.replicas.len() + expected.len(), after, object.want);
            Ok(())
        })
    }

    /// Like [`Mover::move_each`], for replicas that leave: some of them can leave only once others are made.
    pub(super) fn move_off_each(
        &self,
        prefix: &[u8],
        mut plan: impl FnMut(&[u8], &Object, &Extent, &mut Vec<Edit>, &mut Moved) -> Result<()>,
    ) -> Result<Moved> {
        let mut moved = self.move_each(prefix, &mut plan)?;
        if moved.later > 0 {
            let next = self.move_each(prefix, plan)?;
            moved.add(&next);
            moved.kept += next.later;
        }
        Ok(moved)
    }

    /// Like [`Mover::move_part`], for a request of one part. Fails if replicas are still pending at its end.
    pub(super) fn move_each(
        &self,
        prefix: &[u8],
        plan: impl FnMut(&[u8], &Object, &Extent, &mut Vec<Edit>, &mut Moved) -> Result<()>,
    ) -> Result<Moved> {
        let mut late = None;
        let moved = self.move_part(prefix, &mut late, plan)?;
        late.map_or(Ok(moved), Err)
    }

    /// Commits the edits that `plan` adds for each extent, and waits for the replicas that they make pending. One batch holds many objects,
    /// because each batch waits for one sync. If replicas are still pending afterwards, `late` says why.
    pub(super) fn move_part(
        &self,
        prefix: &[u8],
        late: &mut Option<Error>,
        mut plan: impl FnMut(&[u8], &Object, &Extent, &mut Vec<Edit>, &mut Moved) -> Result<()>,
    ) -> Result<Moved> {
        let (mut moved, mut edits, mut shared) = (Moved::default(), Vec::new(), HashSet::new());
        self.catalog.each_object(prefix, |key, object, extents| {
            for extent in frames(extents) {
                // A shared frame moves once, with the first of its owners.
                if extent.source.is_some() && !shared.insert(extent.task(object.id, 0)) {
                    continue;
                }
                plan(key, object, extent, &mut edits, &mut moved)?;
            }
            // A plan does not see the room that the rest of its batch takes, so batches are limited.
            if edits.len() >= BATCH_EDITS || owed_bytes(&edits) >= BATCH_BYTES {
                self.carry_out(std::mem::take(&mut edits), &mut moved, late)?;
            }
            Ok::<_, Error>(true)
        })?;
        self.carry_out(edits, &mut moved, late)?;
        if !self.catalog.is_shared() {
            self.journal.mark_synced()?;
            self.reaper.reap(Duration::from_secs(30))?;
        }
        Ok(moved)
    }
}

/// Returns the bytes of the replicas that edits make pending, before encoding.
fn owed_bytes(edits: &[Edit]) -> u64 {
    let owed = edits.iter().map(|edit| if let Edit::Owe { raw_len, .. } = edit { u64::from(*raw_len) } else { 0 });
    owed.sum()
}

impl Mover {
    /// Commits a batch of moves, and makes their pending replicas. Counts the frames that were left as they are.
    /// No sync is needed before a replaced replica is dropped: its space is not freed before a sync mark covers the change,
    /// and recovery checks that the new replica exists.
    fn carry_out(&self, edits: Vec<Edit>, moved: &mut Moved, late: &mut Option<Error>) -> Result<()> {
        let owed: Vec<(Task, Owed)> = edits.iter().filter_map(owed_by).collect();
        let (lacking, good) = (std::mem::take(&mut moved.lacking), std::mem::take(&mut moved.good));
        let left = self.commit_moves(edits, lacking, Staying::Read(&good))?;
        moved.kept += left;
        moved.dropped = moved.dropped.saturating_sub(left);
        terrace_system::fail::point("move:committed");
        let objects: BTreeSet<u64> = owed.iter().map(|(task, _)| task.object).collect();
        self.make_given(owed.clone())?;
        for object in objects {
            if self.catalog.owed_count(Some(object))? > 0 {
                let limit = match late {
                    // An earlier object has waited in vain, for example for room. This one does not wait, but it is tried: a smaller
                    // replica may fit.
                    Some(_) => Duration::ZERO,
                    // Other nodes free a full shared target in their own time, so the wait is short. It is not zero, because not every
                    // kind of target knows how much fits.
                    None if self.catalog.is_shared() && self.is_owed_to_full(Some(object))? => HOPELESS_WAIT,
                    None => MAX_WAIT,
                };
                match self.finish(Some(object), limit, &mut |_| {}) {
                    Err(Error::StillOwed { seconds, is_full, read_only, lost, .. }) => {
                        let owed = self.catalog.owed_count(None)?;
                        late.get_or_insert(Error::StillOwed { owed, seconds, is_full, read_only, lost });
                    }
                    done => done?,
                }
            }
        }
        self.names.update_all()?;
        for (task, owed) in &owed {
            if self.is_given_up(task, owed)? {
                moved.count_changed(&owed.key, owed.then_drop.is_some());
            }
        }
        Ok(())
    }

    /// Returns whether a replica is neither made nor pending because the owner of an adopted file has changed it.
    fn is_given_up(&self, task: &Task, owed: &Owed) -> Result<bool> {
        let Some(extent) = self.catalog.frame(task, &owed.key)? else { return Ok(false) };
        let is_made = extent.replicas.iter().any(|replica| replica.target == task.target);
        Ok(!is_made && !self.catalog.is_owed(task)? && self.reader.is_changed_by_owner(task.object, &extent))
    }
}

/// Returns the pending replica that an edit adds.
fn owed_by(edit: &Edit) -> Option<(Task, Owed)> {
    match edit {
        Edit::Owe { task, key, raw_len, then_drop } => {
            let owed = Owed { key: key.to_vec(), raw_len: *raw_len, then_drop: *then_drop, since: 0 };
            Some((*task, owed))
        }
        _ => None,
    }
}
