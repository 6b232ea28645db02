//! Moves all replicas off a tier or a node that will be removed.

use terrace_catalog::{Edit, Extent, Object, Replica, TargetId};
use terrace_plan::snapshot::TierSet;

use super::Mover;
use super::beside::{Unread, frame_of, silent_targets};
use super::edits::{owe_instead, task_at};
use super::moves::Moves;
use super::uncache::uncache;
use crate::devices::Tiers;
use crate::read::task_of;
use crate::report::Moved;
use crate::{Error, Result};

/// Targets that replicas leave.
pub(super) struct Departing {
    targets: Vec<TargetId>,
    /// The tiers to which the replicas may move.
    to: TierSet,
    /// No replica may move to a failure domain of these.
    beside: Vec<TargetId>,
    /// Replicas that do not count.
    pub unread: Unread,
    /// Whether a replica may leave although no other target takes it.
    may_thin: bool,
}

impl Departing {
    /// The targets of a tier.
    pub fn tier(tiers: &Tiers, level: usize) -> Departing {
        let targets = tiers.devices.iter().filter(|device| device.tier == level).map(|device| device.id).collect();
        let to = TierSet::of((0..tiers.tiers.len()).filter(|other| *other != level));
        Departing { targets, to, beside: Vec::new(), unread: Unread::on(silent_targets(tiers)), may_thin: true }
    }

    /// The targets of a node. Replicas stay if there are too few other nodes, unless they `may_thin`.
    ///
    /// # Errors
    /// [`Error::Config`] if there are none, or no others.
    pub fn node(tiers: &Tiers, name: &str, may_thin: bool) -> Result<Departing> {
        let devices: Vec<_> = tiers.devices.iter().filter(|device| device.node.as_deref() == Some(name)).collect();
        if devices.is_empty() {
            let mut names: Vec<&str> = tiers.devices.iter().filter_map(|device| device.node.as_deref()).collect();
            names.sort_unstable();
            names.dedup();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Error::Config(format!("no target is on a node {name:?}; nodes with targets: {known}")));
        }
        if devices.len() == tiers.devices.len() {
            return Err(Error::Config(format!("{name} is the only node with targets, so nothing can move off it")));
        }
        let targets: Vec<TargetId> = devices.iter().map(|device| device.id).collect();
        let (to, unread) = (TierSet::of(0..tiers.tiers.len()), Unread::on(silent_targets(tiers)));
        Ok(Departing { beside: targets.clone(), targets, to, unread, may_thin })
    }

    /// Targets whose pending replicas are made on others instead.
    pub fn owed(tiers: &Tiers, targets: Vec<TargetId>) -> Departing {
        let (to, unread) = (TierSet::of(0..tiers.tiers.len()), Unread::on(targets.clone()));
        Departing { beside: targets.clone(), targets, to, unread, may_thin: false }
    }

    pub fn has(&self, target: TargetId) -> bool {
        self.targets.contains(&target)
    }

    /// Returns whether a replica may count for something when another one leaves: nothing says that it cannot be read.
    pub fn may_be_read(&self, replica: &Replica) -> bool {
        !self.unread.has(replica)
    }
}

impl Mover {
    /// Carries out [`Store::drain`](crate::Store::drain).
    pub fn drain(&self, tier: &str) -> Result<Moved> {
        let level = self.tiers.level(tier)?;
        if self.tiers.tiers.len() == 1 {
            return Err(Error::Config(format!(
                "{tier} is the only tier, so nothing can move off it; add another one first"
            )));
        }
        let mut departing = Departing::tier(&self.tiers, level);
        let mut moved = self
            .move_off_each(b"", |key, object, extent, moves| self.depart(key, object, extent, &mut departing, moves))?;
        // Others may have written meanwhile, and what was moved to a full tier above this one may have been evicted to this one again.
        let mut there = 0;
        for target in &departing.targets {
            there += self.catalog.segments(*target)?.iter().map(|(_, live)| live.frames).sum::<u64>();
        }
        let arrived = there.saturating_sub(moved.kept);
        moved.kept += arrived;
        moved.kept_busy += arrived;
        Ok(moved)
    }

    /// Carries out [`Store::drain_node`](crate::Store::drain_node).
    pub fn drain_node(&self, name: &str) -> Result<Moved> {
        let mut departing = Departing::node(&self.tiers, name, true)?;
        self.move_off_each(b"", |key, object, extent, moves| self.depart(key, object, extent, &mut departing, moves))
    }

    /// Adds the edits that move an extent's replicas off the departing targets, made and pending ones.
    pub(super) fn depart(
        &self,
        key: &[u8],
        object: &Object,
        extent: &Extent,
        departing: &mut Departing,
        moves: &mut Moves,
    ) -> Result<()> {
        let Departing { targets, unread, .. } = departing;
        let leaves = |target| targets.contains(&target);
        let extent = &*self.mend_beside(key, object.id, extent, leaves, unread, &mut moves.good)?;
        let departing = &*departing;
        let owed = self.catalog.owed_to(&task_at(object.id, extent, 0))?;
        let (off, mut stay): (Vec<TargetId>, Vec<TargetId>) =
            owed.into_iter().partition(|target| departing.has(*target));
        // Part of a plain file may be made again where it is.
        stay.retain(|target| extent.replicas.iter().all(|replica| replica.target != *target));
        let leave: Vec<&Replica> = extent.replicas.iter().filter(|r| departing.has(r.target)).collect();
        if leave.is_empty() && off.is_empty() {
            return Ok(());
        }
        if self.keeps_unread(key, object, extent, departing, (leave.len() + off.len()) as u64, moves)? {
            return Ok(());
        }
        let (mut left, mut chosen) = (extent.clone(), Vec::new());
        let wanted = usize::from(self.wanted(object.want, object.id, extent)?);
        for replica in leave {
            let others = || left.replicas.iter().filter(|r| *r != replica && departing.may_be_read(r));
            let is_spare = others().count() + chosen.len() + stay.len() >= wanted && others().any(|r| self.outlives(r));
            if is_spare && !departing.may_thin {
                moves.drop(key, object.id, &left, replica);
                left.replicas.retain(|r| r != replica);
                continue;
            }
            self.move_off(key, object.id, &mut left, &mut chosen, replica, departing, moves)?;
        }
        let before = extent.replicas.len() + off.len() + stay.len();
        stay.retain(|target| !chosen.contains(target));
        chosen.extend(stay);
        for target in off {
            self.move_owed_off(key, object.id, &left, &mut chosen, target, departing, moves)?;
        }
        moves.count_thinned(before, left.replicas.len() + chosen.len(), object.want);
        Ok(())
    }

    /// Counts these replicas of an extent as kept, and returns true, if nothing can be copied now: no replica of it can be read.
    pub(super) fn keeps_unread(
        &self,
        key: &[u8],
        object: &Object,
        extent: &Extent,
        departing: &Departing,
        count: u64,
        moves: &mut Moves,
    ) -> Result<bool> {
        if extent.replicas.iter().any(|r| departing.may_be_read(r)) || self.is_cached(key, object.id)? {
            return Ok(false);
        }
        moves.moved.kept += count;
        moves.moved.kept_unread += count;
        Ok(true)
    }

    /// Adds the edits that move a replica to another target: a new replica is made there first, and then this one is dropped.
    /// `left` is the extent without the replicas that leave, and `chosen` holds the targets to which they move.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn move_off(
        &self,
        key: &[u8],
        object: u64,
        left: &mut Extent,
        chosen: &mut Vec<TargetId>,
        replica: &Replica,
        departing: &Departing,
        moves: &mut Moves,
    ) -> Result<()> {
        let owed = self.catalog.owed_to(&task_of(object, left, replica))?;
        let stay = || left.replicas.iter().filter(|r| *r != replica);
        let beside: Vec<TargetId> =
            stay().map(|r| r.target).chain(owed.iter().copied()).chain(chosen.iter().copied()).collect();
        let persistent = |target: TargetId| self.tiers.device(target).is_ok_and(|d| self.tiers.tier(d).persistent);
        let answers = |r: &&Replica| departing.may_be_read(r);
        let outlives =
            chosen.iter().any(|target| persistent(*target)) || stay().filter(answers).any(|r| self.outlives(r));
        let volatile = self.planning.rules.now().may_be_volatile(key);
        let placer = self.placer_for(object, key)?;
        let avoided: Vec<TargetId> = beside.iter().chain(&departing.beside).copied().collect();
        // An interrupted move may have left a pending one, which then serves this move.
        let mut place = self.find_pending_instead(object, left, replica, &owed, chosen, departing, false)?;
        if place.is_none() {
            let lasts = persistent(replica.target);
            place = placer.choose_target_of_move_off(departing.to, left, &avoided, volatile, lasts);
        }
        if place.is_none() && departing.may_thin {
            place = self.find_pending_instead(object, left, replica, &owed, chosen, departing, true)?;
        }
        // A move must not make the extent volatile.
        if let Some(target) = place.filter(|target| volatile || outlives || persistent(*target)) {
            moves.owe(key, task_at(object, left, target), left, Some(replica.target));
            left.replicas.retain(|r| r != replica);
            chosen.push(target);
        } else if departing.may_thin && (outlives || volatile && stay().any(|r| answers(&r))) {
            if !moves.good.contains_key(&frame_of(task_of(object, left, replica))) {
                // The replica that is to stay is only pending, and this one may be the last good one to make it of.
                moves.later += 1;
                return Ok(());
            }
            moves.drop(key, object, left, replica);
            left.replicas.retain(|r| r != replica);
        } else if left.replicas.len() == 1 && chosen.is_empty() && self.is_cached(key, object)? {
            // It can be fetched again.
            moves.edits.push(uncache(key, object, left));
            moves.moved.dropped += 1;
        } else {
            moves.moved.kept += 1;
            let is_in_memory = beside.iter().any(|target| !persistent(*target));
            let may_be = || placer.choose_target(departing.to, left, &avoided, true).is_some();
            moves.moved.kept_from_memory += u64::from(is_in_memory || may_be());
        }
        Ok(())
    }

    /// Returns the target of a pending replica that can replace this one: one that is meant to or, if there are to be fewer replicas, any that
    /// has room.
    #[allow(clippy::too_many_arguments)]
    fn find_pending_instead(
        &self,
        object: u64,
        left: &Extent,
        replica: &Replica,
        owed: &[TargetId],
        chosen: &[TargetId],
        departing: &Departing,
        thins: bool,
    ) -> Result<Option<TargetId>> {
        for target in owed.iter().copied() {
            let is_tier_meant = self.tiers.device(target).is_ok_and(|device| departing.to.has(device.tier as u8));
            let is_left = departing.has(target) || departing.beside.contains(&target);
            if !is_tier_meant || is_left || chosen.contains(&target) {
                continue;
            }
            let pending = self.catalog.owed_replica(&task_at(object, left, target))?;
            let replaces = |then_drop: Option<TargetId>| match then_drop {
                Some(dropped) => dropped == replica.target,
                None => thins && self.takes(target, left),
            };
            if pending.is_some_and(|pending| replaces(pending.then_drop)) {
                return Ok(Some(target));
            }
        }
        Ok(None)
    }

    /// Moves a pending replica to another target. It stays pending on its target if that is the object's only way to a
    /// persistent tier: otherwise an object in memory would stay there only.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn move_owed_off(
        &self,
        key: &[u8],
        object: u64,
        left: &Extent,
        chosen: &mut Vec<TargetId>,
        from: TargetId,
        departing: &Departing,
        moves: &mut Moves,
    ) -> Result<()> {
        let beside: Vec<TargetId> = left.replicas.iter().map(|r| r.target).chain(chosen.iter().copied()).collect();
        let persistent = |target: TargetId| self.tiers.device(target).is_ok_and(|d| self.tiers.tier(d).persistent);
        let volatile = self.planning.rules.now().may_be_volatile(key);
        let outlives = volatile || !persistent(from) || beside.iter().any(|target| persistent(*target));
        let placer = self.placer_for(object, key)?;
        let avoided: Vec<TargetId> = beside.iter().chain(&departing.beside).copied().collect();
        let place = placer.choose_target_of_move_off(departing.to, left, &avoided, volatile, persistent(from));
        let place = place.filter(|target| outlives || persistent(*target));
        if place.is_none() && !(outlives && departing.may_thin) {
            moves.moved.kept += 1;
            let is_in_memory = beside.iter().any(|target| !persistent(*target));
            let may_be = || placer.choose_target(departing.to, left, &avoided, true).is_some();
            moves.moved.kept_from_memory += u64::from(is_in_memory || may_be());
            return Ok(());
        }
        let task = task_at(object, left, from);
        match place {
            Some(target) => {
                moves.edits.extend(owe_instead(key, task, target, left.raw_len, None));
                chosen.push(target);
                moves.moved.made += 1;
            }
            None => moves.edits.push(Edit::Forgive { task }),
        }
        Ok(())
    }
}
