//! An object that is a plain file must be complete on its target. So all its extents go to the same targets, and those that
//! were written there as frames become pending again, as a part of the file.

use terrace_catalog::{Extent, TargetId};

use super::Writer;
use crate::place::ReplicaPlans;
use crate::report::TierState;

/// The targets on which one object is a plain file, or will be.
#[derive(Default)]
pub(super) struct WholeOn(Vec<TargetId>);

impl WholeOn {
    pub fn new(targets: Vec<TargetId>) -> WholeOn {
        WholeOn(targets)
    }

    /// Replaces targets for plain files by targets of the same tier that hold the object already. Then sorts the plan such
    /// that frames are written first.
    pub fn prefer_held_targets(&self, writer: &Writer, key: &[u8], places: &mut ReplicaPlans) {
        if !writer.planning.rules.now().has_plain() {
            return;
        }
        let plain = |target| {
            writer
                .planning
                .tiers
                .device(target)
                .is_ok_and(|device| writer.planning.rules.now().is_plain(device.tier, key))
        };
        let level = |target| writer.planning.tiers.device(target).ok().map(|device| device.tier);
        for at in 0..places.len() {
            let target = places[at].target;
            if !plain(target) || self.0.contains(&target) {
                continue;
            }
            let works =
                |id: TargetId| writer.planning.tiers.device(id).is_ok_and(|device| device.state() == TierState::Ok);
            let free = |id: &&TargetId| places.iter().all(|placed| placed.target != **id) && works(**id);
            if let Some(&held) = self.0.iter().filter(|id| level(**id) == level(target)).find(free) {
                places[at].target = held;
            }
        }
        places.sort_by_key(|placed| plain(placed.target));
    }

    /// Makes replicas pending so that the object is complete on the targets where it is a plain file.
    pub fn owe(&mut self, writer: &Writer, key: &[u8], extent: &Extent, owed: &mut Vec<TargetId>) {
        if !writer.planning.rules.now().has_plain() {
            return;
        }
        // An adopted file is complete already.
        let as_frames = extent.replicas.iter().filter(|replica| !replica.place.is_plain());
        for target in as_frames.map(|replica| replica.target).chain(owed.iter().copied()) {
            let plain = writer
                .planning
                .tiers
                .device(target)
                .is_ok_and(|device| writer.planning.rules.now().is_plain(device.tier, key));
            if plain && !self.0.contains(&target) {
                self.0.push(target);
            }
        }
        owed.extend(self.0.iter().copied().filter(|target| !owed.contains(target)).collect::<Vec<_>>());
    }
}
