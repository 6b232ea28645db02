//! Step 2, first half: which chunks more than one rank has. Of a chunk only a fingerprint is sent; what is said of it where two
//! chunks have the same one is wrong in one way only: a chunk is looked at that nobody else has.

use serde::{Deserialize, Serialize};

use crate::chunk::Hash;
use crate::halving::{Known, first};

/// Fingerprints in order, each once, and whether more than one rank has it: that is the lowest bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Votes(Vec<u64>);

/// Bits of a chunk's number that its fingerprint lacks: a vote is 56 bits then, a varint of eight bytes.
const LACKS: u32 = 9;
const SHARED: u64 = 1;

/// A chunk's fingerprint.
pub fn fingerprint(hash: &Hash) -> u64 {
    hash.number() >> LACKS
}

impl Votes {
    /// A rank's own, `most` at most: those of the least numbers, so that of what ranks share they vote for the same.
    pub fn new<'a>(hashes: impl Iterator<Item = &'a Hash>, most: usize) -> Votes {
        let mut votes: Vec<u64> = hashes.map(|hash| fingerprint(hash) << 1).collect();
        votes.sort_unstable();
        votes.dedup();
        votes.truncate(most);
        Votes(votes)
    }

    /// Each fingerprint, and whether more than one rank has it.
    pub fn shared(&self) -> impl ExactSizeIterator<Item = (u64, bool)> {
        self.0.iter().map(|vote| (vote >> 1, vote & SHARED != 0))
    }
}

impl Known for Votes {
    type Key = u64;
    type Bounds = ();

    fn merge(self, other: Self, (): ()) -> Self {
        let mut merged = [self.0, other.0].concat();
        merged.sort();
        merged.dedup_by(|next, last| {
            let same = *next >> 1 == *last >> 1;
            *last |= u64::from(same) & SHARED;
            same
        });
        Votes(merged)
    }

    fn split_off(&mut self, rank: u32, size: u32) -> Self {
        let first = first(rank, size);
        Votes(self.0.split_off(self.0.partition_point(|vote| (vote >> 1) << LACKS < first)))
    }

    fn keys(&self) -> impl Iterator<Item = u64> {
        self.shared().map(|(fingerprint, _)| fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merged_votes_tell_what_more_than_one_has(
            ranks in prop::collection::vec(prop::collection::btree_set(0u8..30, 0..20), 1..6), cut in 1u32..9,
        ) {
            let hash = |chunk: &u8| Hash::of(&[*chunk]);
            let votes = |chunks: &BTreeSet<u8>| Votes::new(chunks.iter().map(hash).collect::<Vec<_>>().iter(), 100);
            let mut merged = ranks.iter().map(votes).reduce(|a, b| a.merge(b, ())).unwrap_or_default();
            let all: BTreeSet<u8> = ranks.iter().flatten().copied().collect();
            prop_assert_eq!(merged.shared().len(), all.len());
            for (fingerprint, shared) in merged.shared() {
                let chunk = all.iter().find(|chunk| super::fingerprint(&hash(chunk)) == fingerprint).expect("is one of all");
                prop_assert_eq!(shared, ranks.iter().filter(|rank| rank.contains(chunk)).count() > 1);
            }
            let (above, cut) = (merged.split_off(cut, 10), first(cut, 10));
            prop_assert!(merged.keys().all(|key| key << LACKS < cut) && above.keys().all(|key| key << LACKS >= cut));
        }
    }
}
