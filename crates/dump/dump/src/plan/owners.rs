//! Chooses the ranks that store a chunk that several ranks have, and the ranks that send missing copies.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::Ring;
use crate::table::{Entry, Holder, Table};

/// A missing copy: its sender and its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The rank that has the chunk in memory.
    pub from: u32,
    /// The rank that stores it.
    pub to: u32,
}

/// The placement of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Nodes whose stores had the chunk before.
    pub stored: SmallVec<[u32; 4]>,
    /// Ranks that store the chunk from their own memory.
    pub owners: SmallVec<[u32; 4]>,
    /// Copies that are sent.
    pub sent: SmallVec<[Sent; 4]>,
}

impl Placed {
    /// Returns the nodes that have the chunk after the dump. `nodes` is the node of each rank.
    pub fn nodes<'a>(&'a self, nodes: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let ranks = self.owners.iter().copied().chain(self.sent.iter().map(|sent| sent.to));
        self.stored.iter().copied().chain(ranks.map(|rank| nodes[rank as usize]))
    }
}

/// A missing copy goes to the least loaded of this many next partners.
const MAX_PARTNER_CANDIDATES: usize = 4;

/// Places each of the table's chunks on `copies` nodes, or on all nodes if there are fewer. Nodes whose stores have the
/// chunk count. The owners are the holders with the least work so far. They send the missing copies in turn, each to
/// the least loaded of its next partners.
///
/// `work` is the number of bytes that each rank stores regardless, as in [`Dealt::stored`](super::Dealt::stored); this
/// function adds the bytes that it assigns. Received bytes and own bytes count alike: a disk stores both, and the links
/// work in parallel.
pub fn own(table: &Table, ring: &Ring<'_>, work: &mut [u64], copies: usize) -> Vec<Placed> {
    let copies = copies.min(ring.node_count());
    // Place the chunks with the fewest holders first; those with more choice then balance the load.
    let mut order: Vec<usize> = (0..table.entries().len()).collect();
    order.sort_by_key(|at| table.entries()[*at].holders.len());
    let mut placed = vec![Placed::default(); order.len()];
    for at in order {
        placed[at] = place_chunk(&table.entries()[at], ring, work, copies);
    }
    placed
}

fn place_chunk(entry: &Entry, ring: &Ring<'_>, work: &mut [u64], copies: usize) -> Placed {
    let missing = copies.saturating_sub(entry.stored.len());
    let mut taken: SmallVec<[u32; 8]> = entry.stored.iter().copied().collect();
    let mut free: SmallVec<[Holder; 6]> =
        entry.holders.iter().filter(|holder| !taken.contains(&holder.node)).copied().collect();
    free.sort_unstable_by_key(|holder| (work[holder.rank as usize], holder.rank));
    let owners: SmallVec<[u32; 4]> = free.iter().take(missing).map(|holder| holder.rank).collect();
    for owner in &owners {
        work[*owner as usize] += u64::from(entry.length);
        taken.push(ring.nodes()[*owner as usize]);
    }
    // If the stores of all holders have the chunk, no holder is an owner, and the holders send.
    let holders: SmallVec<[u32; 4]> = entry.holders.iter().map(|holder| holder.rank).collect();
    let senders = if owners.is_empty() { holders } else { owners.clone() };
    let mut sent = SmallVec::new();
    for from in senders.iter().copied().cycle().take(missing - owners.len()) {
        let next = ring.partners(from, &taken).take(MAX_PARTNER_CANDIDATES);
        let Some(to) = next.min_by_key(|to| work[*to as usize]) else { break };
        work[to as usize] += u64::from(entry.length);
        taken.push(ring.nodes()[to as usize]);
        sent.push(Sent { from, to });
    }
    Placed { stored: entry.stored.clone(), owners, sent }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::chunk::Hash;
    use crate::plan::unordered;
    use crate::table::Bounds;

    fn entry(chunk: u32, holders: &[Holder], stored: &[u32]) -> Entry {
        let (ranks, holders) = (holders.len() as u32, SmallVec::from_slice(holders));
        Entry { hash: Hash::of(&chunk.to_le_bytes()), length: 10, ranks, stored: stored.into(), holders }
    }

    fn table(entries: Vec<Entry>) -> Table {
        Table::new(entries, Bounds { entries: usize::MAX, nodes: 8 })
    }

    proptest! {
        #[test]
        fn every_chunk_is_on_the_requested_number_of_nodes_and_sent_by_holders(
            chunks in prop::collection::vec(
                (prop::collection::btree_set(0u32..12, 2..8), prop::collection::btree_set(0u32..6, 0..4)), 1..20),
            per_node in 1u32..4, copies in 1usize..7,
        ) {
            let nodes: Vec<u32> = (0..12).map(|rank| rank / per_node).collect();
            let count = *nodes.last().expect("ranks") + 1;
            let entries = chunks.iter().enumerate().map(|(chunk, (ranks, stored))| {
                let mut holders: Vec<Holder> = ranks.iter().map(|r| Holder { node: nodes[*r as usize], rank: *r }).collect();
                holders.dedup_by_key(|holder| holder.node);
                let stored: Vec<u32> = stored.iter().copied().filter(|node| *node < count).collect();
                entry(chunk as u32, &holders, &stored)
            });
            let table = table(entries.collect());
            let ring = Ring::new(unordered(&nodes), &nodes);
            let mut loads = vec![0; 12];
            let placed = own(&table, &ring, &mut loads, copies);
            let mut moved = vec![0u64; 12];
            for (entry, placed) in table.entries().iter().zip(&placed) {
                let stored: Vec<u32> = placed.nodes(&nodes).collect();
                let distinct: BTreeSet<u32> = stored.iter().copied().collect();
                prop_assert_eq!(distinct.len(), stored.len(), "no node twice");
                prop_assert_eq!(stored.len(), copies.min(count as usize).max(entry.stored.len()));
                let has = |rank: u32| entry.holders.iter().any(|holder| holder.rank == rank);
                prop_assert!(placed.owners.iter().all(|owner| has(*owner)));
                prop_assert!(placed.sent.iter().all(|sent| has(sent.from)));
                // A copy moves only where no holder can store it.
                let could = entry.holders.iter().filter(|h| !entry.stored.contains(&h.node)).count();
                prop_assert!(placed.sent.is_empty() || placed.owners.len() == could);
                placed.owners.iter().for_each(|owner| moved[*owner as usize] += 10);
                placed.sent.iter().for_each(|sent| moved[sent.to as usize] += 10);
            }
            prop_assert_eq!(moved, loads);
        }
    }

    #[test]
    fn loads_become_even() {
        // Rank 0 has much of its own already; all ranks have all of 1,000 chunks.
        let nodes: Vec<u32> = (0..8).collect();
        let holders: Vec<Holder> = nodes.iter().map(|rank| Holder { node: *rank, rank: *rank }).collect();
        let table = table((0..1000).map(|chunk| entry(chunk, &holders, &[])).collect());
        let mut loads = vec![0; 8];
        loads[0] = 2000;
        own(&table, &Ring::new(unordered(&nodes), &nodes), &mut loads, 2);
        let (least, most) = (loads.iter().min(), loads.iter().max());
        assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 10), "{loads:?}");
    }
}
