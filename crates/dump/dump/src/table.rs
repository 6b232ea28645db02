//! Step 2, second half: a bounded table of the chunks that ranks share, with candidate ranks that may store them.
//! Merges in any grouping yield the same table, as long as the bound drops nothing.
//!
//! Of a chunk's holders, a merge keeps a uniform sample that is chosen by hashes of chunk and node. The sample favours
//! no rank, so the final choice by load stays balanced. Of equally frequent chunks, the bound keeps those with the
//! least hashes, so that all ranks keep the same ones of the chunks that they share.

use std::cmp::{Ordering, Reverse};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::chunk::Hash;
use crate::halving::{Known, first};

/// The limits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of chunks.
    pub entries: usize,
    /// Maximum number of nodes of a chunk. The limit applies separately to nodes whose stores have the chunk and to
    /// nodes with a rank that has it in memory.
    pub nodes: usize,
}

/// A rank that has a chunk in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// Its node.
    pub node: u32,
    /// The rank.
    pub rank: u32,
}

/// The knowledge about a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The chunk.
    pub hash: Hash,
    /// Its length in bytes.
    pub length: u32,
    /// The number of ranks that have it in memory.
    pub ranks: u32,
    /// Nodes whose store has it already.
    pub stored: SmallVec<[u32; 4]>,
    /// Ranks that have it in memory, at most one of each node.
    pub holders: SmallVec<[Holder; 6]>,
}

/// Distinct entries in order of hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table(Vec<Entry>);

impl Table {
    /// Creates a table from distinct entries.
    pub fn new(mut entries: Vec<Entry>, bounds: Bounds) -> Table {
        entries.sort_unstable_by_key(|entry| entry.hash);
        entries.iter_mut().for_each(|entry| entry.trim(bounds));
        Table(entries).bounded(bounds)
    }

    /// Returns the entries in order of hashes.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Keeps the chunks that most ranks have and, of equally frequent ones, those with the least hashes.
    fn bounded(mut self, bounds: Bounds) -> Table {
        if self.0.len() > bounds.entries {
            let worth = |entry: &Entry| (Reverse(entry.ranks), entry.hash);
            if let Some(last) = bounds.entries.checked_sub(1) {
                self.0.select_nth_unstable_by_key(last, worth);
            }
            self.0.truncate(bounds.entries);
            self.0.sort_unstable_by_key(|entry| entry.hash);
        }
        self
    }
}

impl Known for Table {
    type Key = Hash;
    type Bounds = Bounds;

    fn merge(self, other: Table, bounds: Bounds) -> Table {
        let mut merged = Vec::with_capacity(self.0.len() + other.0.len());
        let (mut left, mut right) = (self.0.into_iter().peekable(), other.0.into_iter().peekable());
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.hash.cmp(&b.hash),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let a = if next.is_le() { left.next() } else { None };
            let b = if next.is_ge() { right.next() } else { None };
            merged.extend(match (a, b) {
                (Some(a), Some(b)) => Some(a.join(b, bounds)),
                (a, b) => a.or(b),
            });
        }
        Table(merged).bounded(bounds)
    }

    fn split_off(&mut self, rank: u32, size: u32) -> Table {
        let first = first(rank, size);
        Table(self.0.split_off(self.0.partition_point(|entry| entry.hash.number() < first)))
    }

    fn keys(&self) -> impl Iterator<Item = Hash> {
        self.0.iter().map(|entry| entry.hash)
    }
}

impl Entry {
    fn join(mut self, other: Entry, bounds: Bounds) -> Entry {
        self.ranks += other.ranks;
        self.stored.extend(other.stored);
        self.holders.extend(other.holders);
        self.trim(bounds);
        self
    }

    /// Removes duplicate nodes and keeps those with the least scores, independently of their order.
    fn trim(&mut self, bounds: Bounds) {
        let chunk = self.hash.number();
        self.stored.sort_unstable_by_key(|node| (score(chunk, *node), *node));
        self.stored.dedup();
        self.stored.truncate(bounds.nodes);
        let order = |holder: &Holder| (score(chunk, holder.node), holder.node, score(!chunk, holder.rank), holder.rank);
        self.holders.sort_unstable_by_key(order);
        self.holders.dedup_by_key(|holder| holder.node);
        self.holders.truncate(bounds.nodes);
    }
}

/// Returns a pseudo-random number that depends only on the arguments, so that all ranks rank nodes alike.
fn score(chunk: u64, number: u32) -> u64 {
    // The finaliser of SplitMix64.
    let mut mixed = chunk ^ u64::from(number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// The chunks in each rank's memory and on its node, as small numbers.
    type Ranks = Vec<(u32, BTreeSet<u8>, BTreeSet<u8>)>;

    fn ranks() -> impl Strategy<Value = Ranks> {
        let chunks = || prop::collection::btree_set(0u8..12, 0..8);
        prop::collection::vec((0u32..5, chunks(), chunks()), 1..9)
    }

    fn hash(chunk: u8) -> Hash {
        Hash::of(&[chunk])
    }

    fn leaf(rank: u32, (node, memory, stored): &(u32, BTreeSet<u8>, BTreeSet<u8>), bounds: Bounds) -> Table {
        let entry = |chunk: &u8| Entry {
            hash: hash(*chunk),
            length: u32::from(*chunk),
            ranks: 1,
            stored: stored.contains(chunk).then_some(*node).into_iter().collect(),
            holders: SmallVec::from_slice(&[Holder { node: *node, rank }]),
        };
        Table::new(memory.iter().map(entry).collect(), bounds)
    }

    fn leaves(ranks: &Ranks, bounds: Bounds) -> Vec<Table> {
        ranks.iter().enumerate().map(|(rank, held)| leaf(rank as u32, held, bounds)).collect()
    }

    proptest! {
        #[test]
        fn any_grouping_of_merges_gives_the_same_table(
            ranks in ranks(), nodes in 1usize..7, seed: u64,
        ) {
            let bounds = Bounds { entries: 100, nodes };
            let mut tables = leaves(&ranks, bounds);
            let flat = tables.clone().into_iter().reduce(|a, b| a.merge(b, bounds)).unwrap_or_default();
            let mut seed = seed;
            while tables.len() > 1 {
                seed = score(seed, 1);
                let a = tables.swap_remove(seed as usize % tables.len());
                let b = tables.swap_remove((seed >> 32) as usize % tables.len());
                tables.push(b.merge(a, bounds));
            }
            prop_assert_eq!(&tables[0], &flat);

            let mut known: BTreeMap<Hash, Vec<usize>> = BTreeMap::new();
            for (rank, (_, memory, _)) in ranks.iter().enumerate() {
                memory.iter().for_each(|chunk| known.entry(hash(*chunk)).or_default().push(rank));
            }
            prop_assert_eq!(flat.entries().len(), known.len());
            for entry in flat.entries() {
                let holding = &known[&entry.hash];
                prop_assert_eq!(entry.ranks as usize, holding.len());
                let on: BTreeSet<u32> = holding.iter().map(|rank| ranks[*rank].0).collect();
                prop_assert_eq!(entry.holders.len(), on.len().min(nodes));
                let kept: BTreeSet<u32> = entry.holders.iter().map(|holder| holder.node).collect();
                prop_assert_eq!(kept.len(), entry.holders.len(), "one holder for a node");
                for holder in &entry.holders {
                    prop_assert!(holding.contains(&(holder.rank as usize)) && ranks[holder.rank as usize].0 == holder.node);
                }
            }
        }

        #[test]
        fn a_bounded_table_is_correct_and_keeps_common_chunks(ranks in ranks(), entries in 0usize..12) {
            let bounds = Bounds { entries, nodes: 3 };
            let full = leaves(&ranks, Bounds { entries: 100, ..bounds });
            let full = full.into_iter().reduce(|a, b| a.merge(b, bounds.wide())).unwrap_or_default();
            let small = leaves(&ranks, bounds).into_iter().reduce(|a, b| a.merge(b, bounds)).unwrap_or_default();
            prop_assert!(small.entries().len() <= entries);
            for entry in small.entries() {
                let truth = full.entries().iter().find(|known| known.hash == entry.hash).expect("was there");
                prop_assert!(entry.ranks <= truth.ranks);
            }
            // Of the chunks that all ranks have, as many as fit are kept, if no rank has more than the table holds.
            let everywhere = full.entries().iter().filter(|e| e.ranks as usize == ranks.len()).count();
            if ranks.iter().all(|(_, memory, _)| memory.len() <= entries) && ranks.len() == 2 {
                let found = small.entries().iter().filter(|e| e.ranks as usize == ranks.len()).count();
                prop_assert_eq!(found, everywhere.min(entries));
            }
        }
    }

    impl Bounds {
        fn wide(self) -> Bounds {
            Bounds { entries: 100, ..self }
        }
    }

    #[test]
    fn all_ranks_keep_the_same_chunks_under_the_bound() {
        let bounds = Bounds { entries: 50, nodes: 3 };
        // Each has 1,000 chunks, in another order; 900 of them both have.
        let held = |rank: u32, from: u32| {
            let entry = |chunk: u32| Entry {
                hash: Hash::of(&chunk.to_le_bytes()),
                length: 1,
                ranks: 1,
                stored: SmallVec::new(),
                holders: SmallVec::from_slice(&[Holder { node: rank, rank }]),
            };
            Table::new((from..from + 1000).map(entry).collect(), bounds)
        };
        let both = held(0, 0).merge(held(1, 100), bounds);
        let shared = both.entries().iter().filter(|entry| entry.ranks == 2).count();
        assert!(shared >= 35, "{shared} of 50 entries are of chunks that both have");
    }

    #[test]
    fn the_sample_of_holders_is_uniform() {
        let bounds = Bounds { entries: 1000, nodes: 4 };
        let mut chosen = [0; 64];
        for chunk in 0..1000u32 {
            let leaf = |rank: u32| {
                let holders = SmallVec::from_slice(&[Holder { node: rank / 2, rank }]);
                let hash = Hash::of(&chunk.to_le_bytes());
                Table::new(vec![Entry { hash, length: 1, ranks: 1, stored: SmallVec::new(), holders }], bounds)
            };
            let all = (0..64).map(leaf).reduce(|a, b| a.merge(b, bounds)).unwrap_or_default();
            all.entries()[0].holders.iter().for_each(|holder| chosen[holder.rank as usize] += 1);
        }
        // 62.5 of 4,000 each.
        assert!(chosen.iter().all(|times| (30..100).contains(times)), "{chosen:?}");
    }
}
