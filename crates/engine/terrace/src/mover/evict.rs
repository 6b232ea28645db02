//! Eviction: moves the coldest replicas off a target that is above its high watermark.

use std::collections::HashSet;

use terrace_catalog::{Edit, Extent, Object, Replica, TargetId, Task, frames};
use terrace_plan::snapshot::TierSet;

use super::Mover;
use super::request::owe;
use crate::Result;
use crate::devices::Device;
use crate::read::task_of;
use crate::report::TierState;

/// The scores that separate classes of hotness. The coldest class is evicted first.
const WARMTH_SCORES: [f64; 3] = [0.5, 4.0, 32.0];
/// The approximate number of evictions in one commit and one sync.
const EVICTIONS_PER_COMMIT: usize = 256;
/// The coldest replicas are chosen among those that take this many times the bytes that have to leave, and at least
/// [`MIN_COMPARED_BYTES`]. A comparison of all would take the longer, the more objects the store has.
const COMPARED_PER_LEAVING_BYTE: u64 = 16;
const MIN_COMPARED_BYTES: u64 = 256 << 20;

/// A replica that may be evicted from a target.
struct Leaving {
    /// The order of eviction: colder ones first, and among equally cold ones those that can be dropped without a new
    /// replica.
    rank: usize,
    key: Vec<u8>,
    /// The extent's offset in the object.
    offset: u64,
}

impl Mover {
    /// Takes replicas off each target that is above its high watermark, the coldest first. A replica is dropped if its
    /// object has more replicas than it wants, and one of them is on a lower persistent tier. Otherwise it becomes pending
    /// on a lower tier in another failure domain, and is dropped once that replica exists. If no such tier has room, it is
    /// still dropped if it has a persistent copy on a lower tier, and stays pending on one that may have room later: fewer
    /// replicas are better than a full tier that takes no writes.
    pub fn evict(&self) -> Result<()> {
        let last = self.tiers.tiers.len() - 1;
        for device in self.tiers.devices.iter().filter(|device| self.is_own(device)) {
            // Asked on the last tier, too: here a target's bytes are measured, now and then, and writes only count them.
            let Ok(space) = device.space() else { continue };
            if device.tier == last {
                continue;
            }
            let mark = self.tiers.tier(device).high_watermark;
            let mut excess = space.used.saturating_sub((space.capacity as f64 * mark) as u64);
            if excess > 0 {
                // Replicas that were evicted before still take space, until readers no longer need them.
                let dead = self.catalog.dead(device.id, u64::MAX, u64::MAX, usize::MAX)?;
                excess = excess.saturating_sub(dead.iter().map(|(_, place)| u64::from(place.length)).sum());
            }
            if excess > 0 {
                self.evict_from(device, excess)?;
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
        for Leaving { key, offset, .. } in self.leaving(device, excess)? {
            let Some((object, extents)) = self.catalog.locate(&key, offset, offset + 1)? else { continue };
            let Some((extent, replica)) =
                extents.first().and_then(|extent| Some((extent, replica_on(extent, device)?)))
            else {
                continue;
            };
            let is_spare = self.is_spare(device, &object, extent);
            if is_spare || !self.owe_below(device, &key, object.id, extent, replica, &mut edits)? {
                if !is_spare && !self.has_copy_below(device, extent) {
                    continue;
                }
                if !is_spare {
                    edits.extend(self.owe_for_later(device, &key, &object, extent)?);
                }
                edits.push(drop_replica(&key, object.id, extent, replica));
            }
            excess = excess.saturating_sub(u64::from(replica.place.length));
            if edits.len() >= EVICTIONS_PER_COMMIT || excess == 0 {
                self.commit_evicted(std::mem::take(&mut edits))?;
            }
            if excess == 0 {
                return Ok(());
            }
        }
        self.commit_evicted(edits)
    }

    /// Returns the replicas that may leave a target, in order. Goes on behind the last object that it looked at before, and stops
    /// once the coldest ones amount to `excess` bytes, or enough were compared.
    fn leaving(&self, device: &Device, excess: u64) -> Result<Vec<Leaving>> {
        let (mut leaving, mut first, mut shared) = (Vec::new(), 0, HashSet::new());
        let (mut compared, most) = (0, excess.saturating_mul(COMPARED_PER_LEAVING_BYTE).max(MIN_COMPARED_BYTES));
        // Only for this moment: two threads that evict at once see the same objects, and a replica leaves once.
        let begin = self.state.evicted_to.lock().get(&device.id).cloned();
        let mut last = Vec::new();
        let mut look = |key: &[u8], object: &Object, extents: &[Extent]| {
            last.clear();
            last.extend_from_slice(key);
            for extent in frames(extents) {
                let Some(replica) = replica_on(extent, device) else { continue };
                // A shared frame is evicted once, with the first of its owners.
                if extent.source.is_some() && !shared.insert(extent.task(object.id, 0)) {
                    continue;
                }
                let score = self.planning.hotness.score(key, extent.offset, object.length);
                let warmth = WARMTH_SCORES.iter().filter(|warmth| score > **warmth).count();
                let rank = 2 * warmth + usize::from(!self.is_spare(device, object, extent));
                let length = u64::from(replica.place.length);
                first += if rank == 0 { length } else { 0 };
                compared += length;
                leaving.push(Leaving { rank, key: key.to_vec(), offset: extent.offset });
            }
            Ok::<_, crate::Error>(first < excess && compared < most)
        };
        let mut goes_on = true;
        self.catalog.each_object_after(b"", begin.clone(), |key, object, extents| {
            goes_on = look(key, object, extents)?;
            Ok::<_, crate::Error>(goes_on)
        })?;
        if let Some(begin) = begin.filter(|_| goes_on) {
            self.catalog.each_object(b"", |key, object, extents| {
                Ok::<_, crate::Error>(key <= &begin[..] && look(key, object, extents)?)
            })?;
        }
        self.state.evicted_to.lock().insert(device.id, last);
        leaving.sort_by_key(|one| one.rank);
        Ok(leaving)
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
    fn is_spare(&self, device: &Device, object: &Object, extent: &Extent) -> bool {
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
        let volatile =
            self.planning.rules.now().rule_for(key).is_some_and(|rule| rule.volatile) || !self.outlives(replica);
        let (placer, lower) = (self.placer_for(object, key), device.tier + 1..self.tiers.tiers.len());
        // If the extent has no copy on a lower tier, it may go to any of them, whatever its rule says. Additional replicas
        // follow the rule.
        let tiers = if self.has_copy_below(device, extent) { placer.allowed(lower) } else { TierSet::of(lower) };
        let place = placer.place_moved(tiers, extent, &beside, volatile);
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

/// Returns the replica of an extent on a target.
fn replica_on<'e>(extent: &'e Extent, device: &Device) -> Option<&'e Replica> {
    extent.replicas.iter().find(|replica| replica.target == device.id)
}

/// Returns the edit that drops a replica of an extent.
pub(super) fn drop_replica(key: &[u8], object: u64, extent: &Extent, replica: &Replica) -> Edit {
    let task = task_of(object, extent, replica);
    Edit::Lost { task, key: serde_bytes::ByteBuf::from(key), place: replica.place, owed: None }
}
