//! Moves that a user asks for: onto a tier, and off a tier.

use terrace_catalog::{Replica, TargetId, Task};
use terrace_plan::snapshot::TierSet;

use super::Mover;
use super::drain::Departing;
use super::edits::{drop_replica, task_at};
use crate::Result;
use crate::origins::is_at_origin;
use crate::report::Moved;

impl Mover {
    /// Carries out [`Store::stage`](crate::Store::stage).
    pub fn stage(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        let level = self.tiers.level(tier)?;
        self.move_each(prefix, |key, object, extent, moves| {
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
                    moves.owe(key, Task { target, ..task }, extent, None);
                }
                None => moves.moved.kept += 1,
            }
            Ok(())
        })
    }

    /// Carries out [`Store::evict`](crate::Store::evict).
    pub fn evict_prefix(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        let level = self.tiers.level(tier)?;
        let mut departing = Departing::tier(&self.tiers, level);
        self.move_off_each(prefix, |key, object, extent, moves| {
            let on_level = |target| self.tiers.device(target).is_ok_and(|device| device.tier == level);
            let extent =
                &*self.mend_beside(key, object.id, extent, on_level, &mut departing.unread, &mut moves.good)?;
            let (on, off): (Vec<&Replica>, Vec<&Replica>) =
                extent.replicas.iter().partition(|replica| on_level(replica.target));
            let volatile = self.planning.rules.now().may_be_volatile(key);
            if is_at_origin(object) && !on.is_empty() {
                moves.moved.dropped += on.len() as u64;
                match off.len() {
                    0 => moves.edits.extend(self.uncache_frame(key, object, extent)?),
                    _ => moves.edits.extend(on.iter().map(|replica| drop_replica(key, object.id, extent, replica))),
                }
                return Ok(());
            }
            if on.is_empty() || self.keeps_unread(key, object, extent, &departing, on.len() as u64, moves)? {
                return Ok(());
            }
            let (mut left, mut chosen) = (extent.clone(), Vec::new());
            let others = (0..self.tiers.tiers.len()).filter(|other| *other != level);
            let owed = self.owed_beside(object.id, extent)?;
            for replica in on {
                if !off.iter().any(|r| departing.may_be_read(r) && (volatile || self.outlives(r))) {
                    self.move_off(key, object.id, &mut left, &mut chosen, replica, &departing, moves)?;
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
                        moves.owe(key, task_at(object.id, extent, target), extent, Some(replica.target));
                        chosen.push(target);
                    }
                    None => moves.drop(key, object.id, extent, replica),
                }
            }
            // A pending replica counts only if its target has room. Otherwise nobody knows when it is made.
            let expected: Vec<&TargetId> = owed.iter().filter(|target| self.takes(**target, extent)).collect();
            let others = expected.iter().filter(|target| !chosen.contains(target)).count();
            let after = left.replicas.len() + chosen.len() + others;
            moves.count_thinned(extent.replicas.len() + expected.len(), after, object.want);
            Ok(())
        })
    }
}
