//! The budget: how many stored bytes an object may have, as a multiple of its bytes.

use terrace_catalog::{Extent, Replica};
use terrace_plan::policy::Budget;

use super::Placer;
use crate::devices::Device;

impl Placer<'_> {
    /// Returns whether the number of stored bytes is limited.
    pub fn has_budget(&self) -> bool {
        self.wanted.budget.is_some()
    }

    /// Returns whether an extent gets one more replica of `stored` bytes on `device`: because the budget pays for it,
    /// because the extent has fewer replicas than the least number that is wanted, or because it would be the first
    /// persistent one.
    pub fn affords(&self, extent: &Extent, device: &Device, stored: u32) -> bool {
        let few = extent.replicas.len() < usize::from(self.wanted.least);
        few || self.is_within_budget(extent, stored) || self.is_first_persistent(extent, device)
    }

    /// Returns whether the budget pays for one more replica of `stored` bytes.
    fn is_within_budget(&self, extent: &Extent, stored: u32) -> bool {
        let all: f64 = extent.replicas.iter().map(|replica| f64::from(replica.stored)).sum();
        self.wanted.budget.is_none_or(|Budget(times)| all + f64::from(stored) <= times * f64::from(extent.raw_len))
    }

    /// Returns the replicas in memory to drop so that the budget also pays for a new persistent replica of `stored` bytes.
    pub fn replicas_over_budget<'e>(&self, extent: &'e Extent, stored: u32) -> impl Iterator<Item = &'e Replica> {
        let fleeting = |replica: &&Replica| {
            self.planning.tiers.device(replica.target).is_ok_and(|device| !self.planning.tiers.tier(device).persistent)
        };
        let (mut left, least) = (extent.clone(), usize::from(self.wanted.least));
        extent.replicas.iter().filter(fleeting).filter(move |replica| {
            let goes = left.replicas.len() >= least && !self.is_within_budget(&left, stored);
            left.replicas.retain(|kept| !goes || kept != *replica);
            goes
        })
    }

    /// Returns whether a replica on `device` would be the first persistent one, if one is required.
    fn is_first_persistent(&self, extent: &Extent, device: &Device) -> bool {
        let lasts = |device: &Device| self.planning.tiers.tier(device).persistent;
        let saved = |replica: &Replica| self.planning.tiers.device(replica.target).is_ok_and(lasts);
        !self.wanted.volatile && lasts(device) && !extent.replicas.iter().any(saved)
    }

    /// Returns how many replicas an extent gets: as many as wanted; under a budget, as many of these as were planned, but at least
    /// one.
    pub fn count(&self, planned: usize) -> usize {
        let wanted = usize::from(self.wanted.replicas);
        if self.wanted.budget.is_some() { planned.clamp(1, wanted) } else { wanted }
    }
}
