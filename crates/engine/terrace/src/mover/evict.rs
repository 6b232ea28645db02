//! Eviction: moves the coldest replicas off a target that is above its high watermark.

use terrace_catalog::{Extent, Object, Replica, TargetId};

use super::Mover;
use super::drops::Staying;
use super::eviction::{Eviction, Purpose};
use crate::Result;
use crate::devices::Device;
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
                excess = excess.saturating_sub(self.count_evicted(device)?);
            }
            match excess {
                0 => {}
                _ if device.tier == last => self.uncache(device, excess)?,
                _ => self.evict_from(device, excess, Purpose::MakeRoom)?,
            }
        }
        Ok(())
    }

    /// Returns the bytes of replicas that were dropped from a target before, and still take space until readers no longer need them.
    pub(super) fn count_evicted(&self, device: &Device) -> Result<u64> {
        let dead = self.catalog.dead(device.id, u64::MAX, u64::MAX, usize::MAX)?;
        Ok(dead.iter().map(|(_, place)| u64::from(place.length)).sum())
    }

    /// Evicts `excess` bytes from a target, as far as the purpose and the room on lower tiers allow.
    pub(super) fn evict_from(&self, device: &Device, mut excess: u64, purpose: Purpose) -> Result<()> {
        for other in self.tiers.devices.iter().filter(|other| other.tier > device.tier) {
            // Asked only so that an older copy is noticed. A target that is away still has what it had.
            let _ = other.target.ready();
        }
        let max_warmth = purpose.max_warmth();
        let (mut eviction, mut staying) = (Eviction::new(self, device, purpose), Vec::new());
        let mut leaving = self.find_leaving(device, excess)?.into_iter().peekable();
        while excess > 0
            && let Some(next) = leaving.next_if(|leaving| leaving.warmth() <= max_warmth)
        {
            let bytes = eviction.add(&next.key, next.offset)?;
            excess = excess.saturating_sub(bytes);
            if bytes == 0 && matches!(purpose, Purpose::Displace { .. }) {
                // It may leave once the target is too full.
                staying.push(next);
            }
            if eviction.edits.len() >= EVICTIONS_PER_COMMIT {
                self.commit_evicted(&mut eviction)?;
            }
        }
        self.remember_staying(device, staying.into_iter().chain(leaving));
        self.commit_evicted(&mut eviction)
    }

    fn commit_evicted(&self, eviction: &mut Eviction<'_>) -> Result<()> {
        let edits = std::mem::take(&mut eviction.edits);
        if edits.is_empty() {
            return Ok(());
        }
        self.commit_moves(edits, std::mem::take(&mut eviction.lacking), Staying::Trusted)?;
        terrace_system::fail::point("evict:committed");
        Ok(())
    }

    /// Returns whether an extent has as many replicas as its object wants even without the one on this target, and a
    /// persistent one on a lower tier.
    pub(super) fn is_spare(&self, device: &Device, object: &Object, extent: &Extent) -> Result<bool> {
        Ok(self.has_copy_below(device, extent)
            && extent.replicas.len() > usize::from(self.wanted(object.want, object.id, extent)?))
    }

    /// Returns whether an extent has a persistent replica on a tier below this target's.
    pub(super) fn has_copy_below(&self, device: &Device, extent: &Extent) -> bool {
        let below = |replica: &Replica| self.tiers.device(replica.target).is_ok_and(|other| other.tier > device.tier);
        extent.replicas.iter().any(|replica| below(replica) && self.outlives(replica))
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
