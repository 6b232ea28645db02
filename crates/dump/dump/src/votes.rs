//! Step 2, first half: finds the chunks that more than one rank has. Ranks exchange short fingerprints instead of
//! hashes. A collision of fingerprints is harmless: at worst, ranks also compare a chunk that no other rank has.

use serde::{Deserialize, Serialize};

use crate::chunk::Hash;
use crate::halving::{Known, first};

/// Sorted, distinct fingerprints. The lowest bit of each entry tells whether more than one rank has the chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Votes(Vec<u64>);

/// A fingerprint omits this many low bits of a chunk's number. A vote then has 56 bits, which postcard encodes as a
/// varint of eight bytes.
const FINGERPRINT_OMITTED_BITS: u32 = 9;
const SHARED_VOTE_FLAG: u64 = 1;

/// Returns a chunk's fingerprint.
pub fn fingerprint(hash: &Hash) -> u64 {
    hash.number() >> FINGERPRINT_OMITTED_BITS
}

impl Votes {
    /// Creates the votes of one rank, at most `most` of them. They are those with the least numbers, so that all ranks
    /// select the same ones of the chunks that they share.
    pub fn new<'a>(hashes: impl Iterator<Item = &'a Hash>, most: usize) -> Votes {
        let mut votes: Vec<u64> = hashes.map(|hash| fingerprint(hash) << 1).collect();
        votes.sort_unstable();
        votes.dedup();
        votes.truncate(most);
        Votes(votes)
    }

    /// Returns each fingerprint and whether more than one rank has it.
    pub fn shared(&self) -> impl ExactSizeIterator<Item = (u64, bool)> {
        self.0.iter().map(|vote| (vote >> 1, vote & SHARED_VOTE_FLAG != 0))
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
            *last |= u64::from(same) & SHARED_VOTE_FLAG;
            same
        });
        Votes(merged)
    }

    fn split_off(&mut self, rank: u32, size: u32) -> Self {
        let first = first(rank, size);
        Votes(self.0.split_off(self.0.partition_point(|vote| (vote >> 1) << FINGERPRINT_OMITTED_BITS < first)))
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
        fn merged_votes_find_hashes_of_several_ranks(
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
            prop_assert!(merged.keys().all(|key| key << FINGERPRINT_OMITTED_BITS < cut) && above.keys().all(|key| key << FINGERPRINT_OMITTED_BITS >= cut));
        }
    }
}
