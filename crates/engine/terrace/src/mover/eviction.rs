//! Plans how replicas leave a target that is too full.

use std::collections::HashSet;

use terrace_catalog::{Edit, Extent, Object, Replica, TargetId, Task, frames};
use terrace_plan::snapshot::TierSet;

use super::Mover;
use super::edits::{drop_replica, owe, replica_on};
use super::leaving::MAX_WARMTH;
use crate::Result;
use crate::devices::Device;
use crate::origins::is_at_origin;
use crate::read::task_of;
use crate::report::Lacking;

/// Why replicas leave a target.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// It is above its high watermark: fewer replicas are better than a target that takes no writes, except where a rule names a persistent tier.
    MakeRoom,
    /// Others are read more often than those up to this class: each extent keeps its number of replicas, and its rule.
    Displace { max_warmth: usize },
}

impl Purpose {
    /// Returns the warmest class that may leave.
    pub fn max_warmth(self) -> usize {
        match self {
            Purpose::MakeRoom => MAX_WARMTH,
            Purpose::Displace { max_warmth } => max_warmth,
        }
    }
}

/// The edits by which replicas leave a target.
pub(super) struct Eviction<'m> {
    mover: &'m Mover,
    device: &'m Device,
    purpose: Purpose,
    pub edits: Vec<Edit>,
    /// The extents that are left with fewer replicas than they are to have.
    pub lacking: Lacking,
    /// The plain files that were looked at.
    files: HashSet<u64>,
}

impl<'m> Eviction<'m> {
    pub fn new(mover: &'m Mover, device: &'m Device, purpose: Purpose) -> Eviction<'m> {
        Eviction { mover, device, purpose, edits: Vec::new(), lacking: Lacking::default(), files: HashSet::new() }
    }

    /// Adds the edits by which the replica of an extent leaves, and with it all replicas in its plain file: that takes its space until
    /// it is deleted as a whole. Returns the bytes that leave, or 0 if any of them has to stay.
    pub fn add(&mut self, key: &[u8], offset: u64) -> Result<u64> {
        let Some((object, extents)) = self.mover.catalog.locate(key, offset, offset + 1)? else { return Ok(0) };
        let found = extents.first().and_then(|extent| Some((extent, replica_on(extent, self.device)?)));
        let Some((extent, replica)) = found else { return Ok(0) };
        if replica.place.is_plain() {
            return self.add_file(key, replica.place.segment);
        }
        let leaves = self.add_frame(key, &object, extent, replica)?;
        Ok(if leaves { replica.place.length.into() } else { 0 })
    }

    fn add_file(&mut self, key: &[u8], file: u64) -> Result<u64> {
        if !self.files.insert(file) {
            return Ok(0);
        }
        let Some((object, extents)) = self.mover.catalog.locate(key, 0, u64::MAX)? else { return Ok(0) };
        let (edits, lacking, mut bytes) = (self.edits.len(), self.lacking, 0);
        for extent in frames(&extents) {
            let Some(replica) = replica_on(extent, self.device).filter(|replica| replica.place.segment == file) else {
                continue;
            };
            if !self.add_frame(key, &object, extent, replica)? {
                self.edits.truncate(edits);
                self.lacking = lacking;
                return Ok(0);
            }
            bytes += u64::from(replica.place.length);
        }
        Ok(bytes)
    }

    /// Adds the edits by which one replica leaves. Returns whether it does.
    fn add_frame(&mut self, key: &[u8], object: &Object, extent: &Extent, replica: &Replica) -> Result<bool> {
        let Eviction { mover, device, purpose, .. } = *self;
        let is_spare = mover.is_spare(device, object, extent)?;
        // A rule that names tiers is kept, even if a persistent one of these takes no more writes then. Memory always makes room.
        let is_bound = mover.tiers.tier(device).persistent && mover.placer_for(object.id, key)?.is_bound();
        let may_thin = matches!(purpose, Purpose::MakeRoom) && !is_bound;
        if !is_spare && self.owe_below(key, object.id, extent, replica, may_thin)? {
            return Ok(true);
        }
        if !is_spare && !may_thin {
            return Ok(false);
        }
        if is_at_origin(object) && extent.replicas.len() == 1 {
            self.edits.extend(mover.uncache_frame(key, object, extent)?);
            return Ok(true);
        }
        if !is_spare && !mover.has_copy_below(device, extent) {
            return Ok(false);
        }
        if !is_spare {
            self.owe_for_later(key, object, extent)?;
        }
        self.edits.push(drop_replica(key, object.id, extent, replica));
        Ok(true)
    }

    /// Makes an extent's replica pending on a lower tier, after which it leaves this target. If the rule does not matter, an extent without a
    /// copy on a lower tier may go to any of them. Returns whether it leaves.
    fn owe_below(
        &mut self,
        key: &[u8],
        object: u64,
        extent: &Extent,
        replica: &Replica,
        may_go_anywhere: bool,
    ) -> Result<bool> {
        let Eviction { mover, device, .. } = *self;
        let owed = mover.catalog.owed_to(&task_of(object, extent, replica))?;
        if !owed.is_empty() {
            // A replica of this frame is already pending. This one can leave once that exists, unless its target takes none.
            return Ok(owed.iter().any(|target| mover.takes(*target, extent)));
        }
        let stay = extent.replicas.iter().filter(|r| *r != replica);
        let beside: Vec<TargetId> = stay.map(|r| r.target).collect();
        let volatile = mover.planning.rules.now().may_be_volatile(key) || !mover.outlives(replica);
        let (placer, lower) = (mover.placer_for(object, key)?, device.tier + 1..mover.tiers.tiers.len());
        let may_go_anywhere = may_go_anywhere && !mover.has_copy_below(device, extent);
        let tiers = if may_go_anywhere { TierSet::of(lower) } else { placer.allowed(lower) };
        let place = placer.choose_target_of_move(tiers, extent, &beside, volatile);
        if let Some(target) = place {
            self.edits.push(owe(
                key,
                Task { target, ..task_of(object, extent, replica) },
                extent,
                Some(replica.target),
            ));
        }
        Ok(place.is_some())
    }

    /// Makes as many replicas pending on lower tiers without room as an extent lacks once its replica on this target is dropped. Fewer where
    /// the rule allows no other failure domain; counts such an extent.
    fn owe_for_later(&mut self, key: &[u8], object: &Object, extent: &Extent) -> Result<()> {
        let Eviction { mover, device, .. } = *self;
        let task = extent.task(object.id, device.id);
        let mut others = mover.targets_of(object.id, extent)?;
        others.retain(|target| *target != device.id);
        let wanted = usize::from(mover.wanted(object.want, object.id, extent)?);
        let missing = wanted.saturating_sub(others.len());
        let lower = device.tier + 1..mover.tiers.tiers.len();
        let targets = mover.placer_for(object.id, key)?.for_later(lower, missing, &others);
        self.lacking += Lacking::of(others.len() + targets.len(), wanted);
        self.edits.extend(targets.into_iter().map(|target| owe(key, Task { target, ..task }, extent, None)));
        Ok(())
    }
}
