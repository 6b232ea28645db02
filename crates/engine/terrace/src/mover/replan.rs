//! Plans stored objects again: cold ones for a denser encoding, and those whose policy has changed by the new one.

use std::sync::Arc;

use terrace_catalog::{Edit, Extent, Object, Replica, TargetId, frames};
use terrace_cost::Weights;
use terrace_plan::policy::Policy;

use super::Mover;
use super::beside::Unread;
use super::edits::task_at;
use super::moves::Moves;
use super::unplanned::Following;
use crate::devices::Device;
use crate::place::element_of;
use crate::report::{Moved, TierState};
use crate::{Error, Result};

/// Extents with at most this score are cold.
const MAX_COLD_SCORE: f64 = 0.5;
/// The approximate number of edits in one commit.
const EDITS_PER_COMMIT: usize = 16;

impl Mover {
    /// Carries out [`Store::tune`](crate::Store::tune).
    pub fn tune(&self, prefix: &[u8], all: bool) -> Result<Moved> {
        self.move_each(prefix, |key, object, extent, moves| {
            let is_hot = || self.planning.hotness.score(key, extent.offset, extent.end()) > MAX_COLD_SCORE;
            if !all && is_hot() || !self.can_replan(object.id, extent)? {
                return Ok(());
            }
            let (dense, policy) = (Weights::ARCHIVAL, self.policy_of(key)?);
            let replicas = extent.replicas.len().clamp(1, 255) as u8;
            let first = if policy.raw_first { policy.first } else { dense };
            let wanted = Policy { replicas, first, rest: dense, budget: None, ..policy };
            self.replan(key, object.id, extent, &wanted, true, moves).map(drop)
        })
    }

    /// Returns whether all replicas of an extent are there, and none is pending.
    fn can_replan(&self, object: u64, extent: &Extent) -> Result<bool> {
        let works = |target| self.tiers.device(target).is_ok_and(|device| device.state() == TierState::Ok);
        let is_owed = !self.catalog.owed_to(&task_at(object, extent, 0))?.is_empty();
        Ok(!is_owed && extent.replicas.iter().all(|replica| works(replica.target)))
    }

    /// Plans the moves that bring an extent's replicas in line with a new plan. With `stay`, no replica changes its target. Returns
    /// whether it has as many as are wanted then, on tiers that the policy allows.
    #[allow(clippy::too_many_arguments)]
    fn replan(
        &self,
        key: &[u8],
        object: u64,
        extent: &Extent,
        wanted: &Policy,
        stay: bool,
        moves: &mut Moves,
    ) -> Result<bool> {
        let Some(raw) = self.reader.read_frame(object, extent) else { return Ok(true) };
        let wanted = Policy { replicas: self.wanted_by(wanted, object, extent)?, ..*wanted };
        let placer = self.planning.placer(key, element_of(key), wanted);
        let places = placer.replan(extent, &raw, stay);
        if places.is_empty() {
            moves.moved.kept += 1;
            return Ok(false);
        }
        let leaves = |target: TargetId| places.iter().all(|placed| placed.target != target);
        let mut unread = Unread::default();
        let extent = &*self.mend_beside(key, object, extent, leaves, &mut unread, &mut moves.good)?;
        let mut leaving = extent.replicas.iter().filter(|replica| leaves(replica.target));
        for placed in &places {
            let task = task_at(object, extent, placed.target);
            self.encode_as(task, placed.encoding);
            match extent.replicas.iter().find(|replica| replica.target == placed.target) {
                Some(replica) if replica.encoding == placed.encoding => {}
                Some(_) => {
                    moves.owe(key, task, extent, None);
                }
                None => {
                    let instead = leaving.next().map(|replica| replica.target);
                    moves.owe(key, task, extent, instead);
                }
            }
        }
        let enough = places.len() >= usize::from(wanted.replicas);
        let stays = |other: &&Replica| !leaves(other.target) && !unread.has(other);
        let may_drop = extent.replicas.iter().filter(stays).any(|other| wanted.volatile || self.outlives(other));
        // Where none stays, they leave once the new ones are made.
        for replica in leaving.filter(|_| enough && may_drop) {
            moves.drop(key, object, extent, replica);
        }
        Ok(enough && places.iter().all(|placed| self.allows(&wanted, placed.target)))
    }

    /// Returns the number of replicas that an extent should have by a policy of its object. Other owners of a shared frame may have wanted
    /// more than there can be on the tiers that this policy allows.
    pub(super) fn wanted_by(&self, wanted: &Policy, object: u64, extent: &Extent) -> Result<u8> {
        let count = self.wanted(wanted.replicas, object, extent)?;
        let domains = self.tiers.domains(wanted.tiers, wanted.is_all_persistent()).min(255) as u8;
        Ok(count.min(domains.max(wanted.replicas)))
    }

    /// Replans an object by its policy. Returns what is left to be done.
    pub(super) fn follow_policy(&self, key: &[u8], object: &Object) -> Result<Following> {
        let wanted = self.planning.policy(key, &self.planning.kept.of_replicas(key, Some(object))).wanted;
        let rules = self.planning.rules.now();
        if let Some(left) = self.unshare_misfits(key, &wanted)? {
            return Ok(left);
        }
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(Following::Done) };
        let mut moves = Moves::default();
        if object.want != wanted.replicas {
            moves.edits.push(Edit::Want { key: key.to_vec(), object: object.id, want: wanted.replicas });
        }
        // As a whole: what is planned is read, and should not be read again whenever the rest is tried.
        let mut planned: Vec<&Extent> = Vec::new();
        for extent in frames(&extents) {
            if !self.can_replan(object.id, extent)? {
                self.commit_planned(&mut moves)?;
                return Ok(Following::ToPlan);
            }
            // It fits, or all objects are placed alike.
            if !self.is_shared_among_rules(object.id, extent)? {
                planned.push(extent);
            }
        }
        let (mut is_enough, mut left) = (true, 0);
        for extent in planned {
            is_enough &= self.replan(key, object.id, extent, &wanted, false, &mut moves)?;
            if moves.edits.len() >= EDITS_PER_COMMIT {
                left += self.commit_planned(&mut moves)?;
            }
        }
        left += self.commit_planned(&mut moves)?;
        // Another process may have followed rules that are newer than these before this commit.
        self.planning.rules.renew();
        Ok(if left > 0 || !Arc::ptr_eq(&rules, &self.planning.rules.now()) {
            Following::ToPlan
        } else if !is_enough && (wanted.budget.is_none() || self.lacks_tiers(&wanted)) {
            Following::Waiting
        } else if moves.moved.made > 0 {
            Following::ToCheck
        } else {
            Following::Done
        })
    }

    /// Gives an object frames of its own if it shares some that do not fit its policy: those of the other owners may want them as they are. Returns
    /// the rest of the work if that was not possible.
    fn unshare_misfits(&self, key: &[u8], wanted: &Policy) -> Result<Option<Following>> {
        if !self.shares_misfit(key, wanted)? {
            return Ok(None);
        }
        if !self.has_room_to_follow(key, wanted)? {
            return Ok(Some(Following::Waiting));
        }
        match self.unshare(key) {
            Err(Error::NoSpace { .. }) => return Ok(Some(Following::Waiting)),
            unshared => unshared?,
        }
        // It may have been written to meanwhile.
        Ok(self.shares_misfit(key, wanted)?.then_some(Following::ToPlan))
    }

    fn shares_misfit(&self, key: &[u8], wanted: &Policy) -> Result<bool> {
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(false) };
        for extent in frames(&extents) {
            if self.is_shared_among_rules(object.id, extent)? && !self.extent_fits(&object, extent, wanted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether an extent's frame has other owners, and the rules may want their replicas elsewhere.
    fn is_shared_among_rules(&self, object: u64, extent: &Extent) -> Result<bool> {
        if extent.source.is_none() || self.planning.rules.now().places_all_alike() {
            return Ok(false);
        }
        let shared = self.catalog.shared_frame(&extent.task(object, 0))?;
        Ok(shared.is_some_and(|frame| frame.owners > 1))
    }

    /// Returns whether a target that a policy allows takes no bytes now.
    pub(super) fn lacks_tiers(&self, wanted: &Policy) -> bool {
        let lacks = |device: &Device| wanted.tiers.has(device.tier as u8) && device.state() != TierState::Ok;
        self.tiers.devices.iter().any(lacks)
    }
}
