//! Sets of tiers and of targets, by index.

use serde::{Deserialize, Serialize};

use crate::mix::mix;

/// The maximum number of targets in a snapshot, because plans name them by 16 bits.
pub const MAX_TARGETS: usize = 1 << 16;
/// The maximum number of tiers in a snapshot.
pub const MAX_TIERS: usize = 64;
/// The maximum number of targets that one search considers; see [`select_members`](crate::plan::members).
pub const MAX_SEARCHED_TARGETS: usize = 64;

/// A set of tiers, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TierSet(u64);

impl TierSet {
    /// Every tier.
    pub const ALL: TierSet = TierSet(u64::MAX);

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
        self.0
    }
}

impl Default for TierSet {
    fn default() -> Self {
        TierSet::ALL
    }
}

/// A set of targets, by index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetSet {
    /// The targets up to index 63, apart from the others, so that small sets need no allocation.
    first: u64,
    /// The following targets, 64 in each word.
    more: Vec<u64>,
    /// Whether the set contains all targets that `more` does not reach.
    rest: bool,
}

impl TargetSet {
    /// Every target.
    pub const ALL: TargetSet = TargetSet { first: u64::MAX, more: Vec::new(), rest: true };

    /// The set of the targets with these indexes; indexes from [`MAX_TARGETS`] on are ignored.
    pub fn of(indexes: impl IntoIterator<Item = usize>) -> TargetSet {
        let mut set = TargetSet { first: 0, more: Vec::new(), rest: false };
        for index in indexes.into_iter().filter(|index| *index < MAX_TARGETS) {
            match (index / 64).checked_sub(1) {
                None => set.first |= 1 << index,
                Some(word) => {
                    set.more.resize(set.more.len().max(word + 1), 0);
                    set.more[word] |= 1 << (index % 64);
                }
            }
        }
        set
    }

    /// Returns whether the set contains the target with this index.
    pub fn has(&self, target: usize) -> bool {
        if target < 64 {
            return self.first >> target & 1 == 1;
        }
        self.more.get(target / 64 - 1).map_or(self.rest, |word| word >> (target % 64) & 1 == 1)
    }

    /// Returns a number that identifies the set.
    pub(crate) fn bits(&self) -> u64 {
        self.more.iter().copied().fold(self.first, mix)
    }
}
