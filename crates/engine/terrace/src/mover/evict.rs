//! Eviction: moves the coldest replicas off a target that is above its high watermark.

use terrace_catalog::{Edit, Extent, Object, Replica, TargetId, Task};
use terrace_plan::snapshot::TierSet;

use super::Mover;
use super::edits::{drop_replica, owe, replica_on};
use super::leaving::Leaving;
use crate::Result;
use crate::devices::Device;
use crate::origins::is_at_origin;
use crate::read::task_of;
use crate::report::TierState;

/// The approximate number of evictions in one commit and one sync.
const EVICTIONS_PER_COMMIT: usize = 256;
impl Mover {
    /// Takes replicas off each target that is above its high watermark, the coldest first. A replica is dropped if its
    /// object has more replicas than it wants, and one of them is on a lower persistent tier. Otherwise it becomes pending
    /// on a lower tier in another failure domain, and is dropped once that replica exists. If no such tier has room, it is
    /// still dropped if it has a persistent copy on a lower tier, and stays pending on one that may have room later: fewer
    /// replicas are better than a full tier that takes no writes.
    pub fn evict(&self) -> Result<()> {
        let last = self.tiers.tiers.len() - 1;
        for device in self.tiers.devices.iter().filter(|device| self.reaper.is_own(device)) {
            // Asked on the last tier, too: here a target's bytes are measured, now and then, and writes only count them.
            let Ok(space) = device.space() else { continue };
            // Only what can be fetched again leaves the last tier.
            if device.tier == last && !self.reader.origins.is_any() {
                continue;
            }
            let mark = self.tiers.tier(device).high_watermark;
            let mut excess = space.used.saturating_sub((space.capacity as f64 * mark) as u64);
            if excess > 0 {
                // Replicas that were evicted before still take space, until readers no longer need them.
                let dead = self.catalog.dead(device.id, u64::MAX, u64::MAX, usize::MAX)?;
                excess = excess.saturating_sub(dead.iter().map(|(_, place)| u64::from(place.length)).sum());
            }
            match excess {
                0 => {}
                _ if device.tier == last => self.uncache(device, excess)?,
                _ => self.evict_from(device, excess)?,
            }
        }
        Ok(())
    }

    /// Evicts `excess` bytes from a target, as far as lower tiers have room for the replicas.
    fn evict_from(&self, device: &Device, mut excess: u64) -> Result<()> {
        for other in self.tiers.devices.iter().filter(|other| other.tier > device.tier) {
            // Asked only so that an older copy is noticed. A target that is away still has what it had.
            let _ = other.target.ready();
        }
        let mut edits = Vec::new();
        let mut leaving = self.find_leaving(device, excess)?.into_iter();
        while excess > 0
            && let Some(Leaving { key, offset, .. }) = leaving.next()
        {
            let Some((object, extents)) = self.catalog.locate(&key, offset, offset + 1)? else { continue };
            let Some((extent, replica)) =
                extents.first().and_then(|extent| Some((extent, replica_on(extent, device)?)))
            else {
                continue;
            };
            let is_spare = self.is_spare(device, &object, extent);
            if is_spare || !self.owe_below(device, &key, object.id, extent, replica, &mut edits)? {
                if is_at_origin(&object) && extent.replicas.len() == 1 {
                    edits.extend(self.uncache_frame(&key, &object, extent)?);
                } else if !is_spare && !self.has_copy_below(device, extent) {
                    continue;
                } else {
                    if !is_spare {
                        edits.extend(self.owe_for_later(device, &key, &object, extent)?);
                    }
                    edits.push(drop_replica(&key, object.id, extent, replica));
                }
            }
            excess = excess.saturating_sub(u64::from(replica.place.length));
            if edits.len() >= EVICTIONS_PER_COMMIT {
                self.commit_evicted(std::mem::take(&mut edits))?;
            }
        }
        self.remember_staying(device, leaving);
        self.commit_evicted(edits)
    }

    fn commit_evicted(&self, edits: Vec<Edit>) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        self.commit_moves(edits)?;
        terrace_system::fail::point("evict:committed");
        Ok(())
    }

    /// Returns whether an extent has as many replicas as its object wants even without the one on this target, and a
    /// persistent one on a lower tier.
    pub(super) fn is_spare(&self, device: &Device, object: &Object, extent: &Extent) -> bool {
        extent.replicas.len() > usize::from(self.wanted(object.want, object.id, extent))
            && self.has_copy_below(device, extent)
    }

    /// Returns whether an extent has a persistent replica on a tier below this target's.
    fn has_copy_below(&self, device: &Device, extent: &Extent) -> bool {
        let below = |replica: &Replica| self.tiers.device(replica.target).is_ok_and(|other| other.tier > device.tier);
        extent.replicas.iter().any(|replica| below(replica) && self.outlives(replica))
    }

    /// Makes an extent's replica pending on a lower tier, after which it leaves this target. Returns whether it leaves.
    fn owe_below(
        &self,
        device: &Device,
        key: &[u8],
        object: u64,
        extent: &Extent,
        replica: &Replica,
        edits: &mut Vec<Edit>,
    ) -> Result<bool> {
        let owed = self.catalog.owed_to(&task_of(object, extent, replica))?;
        if !owed.is_empty() {
            // A replica of this frame is already pending. This one can leave once that exists, unless its target takes none.
            return Ok(owed.iter().any(|target| self.takes(*target, extent)));
        }
        let stay = extent.replicas.iter().filter(|r| *r != replica);
        let beside: Vec<TargetId> = stay.map(|r| r.target).collect();
        let volatile = self.planning.rules.now().may_be_volatile(key) || !self.outlives(replica);
        let (placer, lower) = (self.placer_for(object, key), device.tier + 1..self.tiers.tiers.len());
        // If the extent has no copy on a lower tier, it may go to any of them, whatever its rule says. Additional replicas
        // follow the rule.
        let tiers = if self.has_copy_below(device, extent) { placer.allowed(lower) } else { TierSet::of(lower) };
        let place = placer.choose_target_of_move(tiers, extent, &beside, volatile);
        if let Some(target) = place {
            edits.push(owe(key, Task { target, ..task_of(object, extent, replica) }, extent, Some(replica.target)));
        }
        Ok(place.is_some())
    }

    /// Returns the edits that make as many replicas pending on lower tiers without room as an extent lacks once its replica on this
    /// target is dropped. Fewer where the rule allows no other failure domain.
    fn owe_for_later(&self, device: &Device, key: &[u8], object: &Object, extent: &Extent) -> Result<Vec<Edit>> {
        let task = extent.task(object.id, device.id);
        let stay = extent.replicas.iter().map(|replica| replica.target).filter(|target| *target != device.id);
        let others: Vec<TargetId> = stay.chain(self.catalog.owed_to(&task)?).collect();
        let missing = usize::from(self.wanted(object.want, object.id, extent)).saturating_sub(others.len());
        let lower = device.tier + 1..self.tiers.tiers.len();
        let targets = self.placer_for(object.id, key).for_later(lower, missing, &others);
        Ok(targets.into_iter().map(|target| owe(key, Task { target, ..task }, extent, None)).collect())
    }

    /// Returns whether a target works and has room for an extent.
    pub(super) fn takes(&self, target: TargetId, extent: &Extent) -> bool {
        let takes = |d: &Device| d.state() == TierState::Ok && d.free() >= extent.raw_len.into();
        self.tiers.device(target).is_ok_and(takes)
    }

    /// Returns whether a replica is on a persistent tier, and not on a target that may lack it.
    pub(super) fn outlives(&self, replica: &Replica) -> bool {
        self.tiers.device(replica.target).is_ok_and(|d| self.tiers.tier(d).persistent && !d.target.is_new())
    }
}
