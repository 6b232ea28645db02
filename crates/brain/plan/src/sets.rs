//! Sets of tiers and of targets, by index.

use serde::{Deserialize, Serialize};

/// The maximum number of targets in a snapshot.
pub const MAX_TARGETS: usize = 64;
/// The maximum number of tiers in a snapshot.
pub const MAX_TIERS: usize = 32;

/// A set of tiers, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TierSet(u32);

impl TierSet {
    /// Every tier.
    pub const ALL: TierSet = TierSet(u32::MAX);

    /// The set of the tiers with these indexes; indexes from [`MAX_TIERS`] on are ignored.
    pub fn of(indexes: impl IntoIterator<Item = usize>) -> TierSet {
        TierSet(indexes.into_iter().filter(|index| *index < MAX_TIERS).fold(0, |set, index| set | 1 << index))
    }

    /// Returns whether the set contains the tier with this index.
    pub fn has(self, tier: u8) -> bool {
        self.0.checked_shr(tier.into()).is_some_and(|set| set & 1 == 1)
    }
}

impl TierSet {
    /// Returns a number that identifies the set.
    pub(crate) fn bits(self) -> u64 {
        self.0.into()
    }
}

impl Default for TierSet {
    fn default() -> Self {
        TierSet::ALL
    }
}

/// A set of targets, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetSet(u64);

impl TargetSet {
    /// Every target.
    pub const ALL: TargetSet = TargetSet(u64::MAX);

    /// The set of the targets with these indexes; indexes from [`MAX_TARGETS`] on are ignored.
    pub fn of(indexes: impl IntoIterator<Item = usize>) -> TargetSet {
        TargetSet(indexes.into_iter().filter(|index| *index < MAX_TARGETS).fold(0, |set, index| set | 1 << index))
    }

    /// Returns whether the set contains the target with this index.
    pub fn has(self, target: usize) -> bool {
        target < MAX_TARGETS && self.0 >> target & 1 == 1
    }

    /// Returns a number that identifies the set.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}
