//! The plan of a dump, which all ranks compute alike, and each rank's part of it: the chunks that it stores and the
//! chunks that it sends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Dealt, Placed, Ring, by_load, by_rank, own, unordered};
use crate::chunk::ByHash;
use crate::chunk::Chunk;
use crate::halving::Answers;
use crate::table::{Bounds, Entry, Holder, Table};
use crate::votes::{Votes, fingerprint};

/// The nodes that have a chunk.
pub type Nodes = SmallVec<[u32; 4]>;

/// A table keeps this many candidate nodes for each copy of a chunk, so that the plan can choose among them by load.
const CANDIDATES_PER_COPY: usize = 2;

/// Returns the bounds of a table of shared chunks.
pub fn bounds(entries: usize, copies: usize) -> Bounds {
    Bounds { entries, nodes: CANDIDATES_PER_COPY * copies }
}

/// The data that a rank dumps.
#[derive(Clone, Copy, Debug)]
pub struct Mine<'a> {
    /// The rank and its node.
    pub holder: Holder,
    /// The rank's distinct chunks.
    pub chunks: &'a [Chunk<'a>],
    /// For each chunk, the nodes whose stores have it already.
    pub stored: &'a [Nodes],
}

impl<'a> Mine<'a> {
    /// Returns this rank's votes, which find the chunks that other ranks have, too.
    pub fn votes(&self, bounds: Bounds) -> Votes {
        Votes::new(self.chunks.iter().map(|chunk| &chunk.hash), bounds.entries)
    }

    /// Returns this rank's entries for the chunks that other ranks have, too.
    pub fn table(&self, voted: &Answers<Votes, bool>, bounds: Bounds) -> Table {
        let entry = |(chunk, stored): (&Chunk<'_>, &Nodes)| Entry {
            hash: chunk.hash,
            length: chunk.bytes.len() as u32,
            ranks: 1,
            stored: stored.clone(),
            holders: SmallVec::from_slice(&[self.holder]),
        };
        let shared = self.each().filter(|(chunk, _)| is_shared(voted, chunk));
        Table::new(shared.map(entry).collect(), bounds)
    }

    /// Returns the bytes that this rank stores of chunks that no other rank has.
    pub fn load(&self, voted: &Answers<Votes, bool>, copies: usize) -> Load {
        let mut load = Load::default();
        for (chunk, stored) in self.each().filter(|(chunk, _)| !is_shared(voted, chunk)) {
            let length = chunk.bytes.len() as u64;
            if stored.is_empty() {
                load.alone += length;
            } else if stored.len() < copies && !stored.contains(&self.holder.node) {
                load.again += length;
            }
        }
        load
    }

    fn each(&self) -> impl Iterator<Item = (&'a Chunk<'a>, &'a Nodes)> {
        self.chunks.iter().zip(self.stored)
    }
}

fn is_shared(voted: &Answers<Votes, bool>, chunk: &Chunk<'_>) -> bool {
    voted.get(&fingerprint(&chunk.hash)) == Some(&true)
}

/// The bytes that a rank stores of chunks that no other rank has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes of chunks that no store has.
    pub alone: u64,
    /// Bytes of chunks that too few stores have.
    pub again: u64,
}

/// The placement of each shared chunk, as its home decides; `None` if a table had no room for the chunk.
pub type Decided = ByHash<Option<Placed>>;

/// The part of the plan that all ranks share. Each rank computes it from the same input, so no exchange is needed.
pub struct Plan<'a> {
    ring: Ring<'a>,
    alone: Vec<u64>,
    dealt: Dealt,
    copies: usize,
}

impl<'a> Plan<'a> {
    /// Plans from each rank's load, either `balanced` or with static partners.
    pub fn new(loads: &[Load], nodes: &'a [u32], copies: usize, balanced: bool) -> Plan<'a> {
        let ring = Ring::new(unordered(nodes), nodes);
        let alone: Vec<u64> = loads.iter().map(|load| load.alone).collect();
        let work: Vec<u64> = loads.iter().map(|load| load.alone + load.again).collect();
        let deal = if balanced { by_load } else { by_rank };
        Plan { dealt: deal(&alone, &work, &ring, copies), ring, alone, copies }
    }

    /// Decides the placement of the chunks of one home. Chunks are distributed over homes at random, so each home
    /// balances its share of the work independently.
    pub fn decide(&self, home: &Table) -> Decided {
        let homes = self.dealt.stored.len().max(1) as u64;
        let mut work: Vec<u64> = self.dealt.stored.iter().map(|bytes| bytes / homes).collect();
        let placed = own(home, &self.ring, &mut work, self.copies);
        home.entries().iter().map(|entry| entry.hash).zip(placed.into_iter().map(Some)).collect()
    }

    /// Returns a rank's part of the plan.
    pub fn holdings(&self, mine: &Mine<'_>, decided: &Decided) -> Holdings {
        let Holder { node, rank } = mine.holder;
        let partners = self.ring.partners(rank, &[node]).take(self.copies.saturating_sub(1)).collect();
        let mut holdings = Holdings { own: Vec::new(), sent: BTreeMap::new(), partners, nodes: Vec::new() };
        let mut dealt = 0;
        for (number, (chunk, stored)) in (0..).zip(mine.each()) {
            let nodes = match decided.get(&chunk.hash) {
                Some(Some(placed)) => self.place_shared(&mut holdings, rank, number, placed),
                _ if stored.is_empty() && dealt < self.alone[rank as usize] => {
                    dealt += chunk.bytes.len() as u64;
                    self.place_unshared(&mut holdings, rank, number, dealt - chunk.bytes.len() as u64)
                }
                _ => self.place_stored(&mut holdings, rank, number, stored),
            };
            holdings.nodes.push(nodes);
        }
        holdings
    }

    /// Plans a chunk that other ranks have, too.
    fn place_shared(&self, holdings: &mut Holdings, rank: u32, number: u32, placed: &Placed) -> Nodes {
        if placed.owners.contains(&rank) {
            holdings.own.push(number);
        }
        for sent in placed.sent.iter().filter(|sent| sent.from == rank) {
            holdings.sent.entry(sent.to).or_default().push(number);
        }
        placed.nodes(self.ring.nodes()).collect()
    }

    /// Plans a chunk that no other rank is known to have: this rank stores it and sends it to the ranks in whose shares
    /// it lies. `place` is its offset in the row of all such chunks. The shares divide a sequence of rows, one for each
    /// further copy; since no share is longer than a row, no rank gets a chunk twice.
    fn place_unshared(&self, holdings: &mut Holdings, rank: u32, number: u32, place: u64) -> Nodes {
        let (shares, row) = (&self.dealt.shares[rank as usize], self.alone[rank as usize]);
        holdings.own.push(number);
        let mut nodes = Nodes::from_slice(&[self.ring.nodes()[rank as usize]]);
        let mut end = 0;
        for (to, bytes) in shares {
            let start = end;
            end += bytes;
            // The first copy of the chunk that begins at or after the start of the share.
            let copy = start.saturating_sub(place).div_ceil(row);
            if copy * row + place < end {
                holdings.sent.entry(*to).or_default().push(number);
                nodes.push(self.ring.nodes()[*to as usize]);
            }
        }
        nodes
    }

    /// Plans a chunk that is stored already or that the loads did not include: missing copies go to partners on the
    /// ring.
    fn place_stored(&self, holdings: &mut Holdings, rank: u32, number: u32, stored: &Nodes) -> Nodes {
        let node = self.ring.nodes()[rank as usize];
        let mut nodes = stored.clone();
        if nodes.len() < self.copies && !nodes.contains(&node) {
            holdings.own.push(number);
            nodes.push(node);
        }
        let missing = self.copies.saturating_sub(nodes.len());
        for to in self.ring.partners(rank, &nodes).take(missing) {
            holdings.sent.entry(to).or_default().push(number);
            nodes.push(self.ring.nodes()[to as usize]);
        }
        nodes
    }
}

/// A rank's part of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// The numbers of its own chunks that it stores.
    pub own: Vec<u32>,
    /// For each receiver, the numbers of the chunks that it sends.
    pub sent: BTreeMap<u32, Vec<u32>>,
    /// The ranks that store copies of its manifest.
    pub partners: Vec<u32>,
    /// For each chunk, the nodes that have it after the dump.
    pub nodes: Vec<Nodes>,
}
