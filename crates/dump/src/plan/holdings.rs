//! What all ranks know of a dump, and what one of them does for it: which chunks it stores, which it sends to whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Placed, Ring, by_load, own, unordered};
use crate::chunk::Chunk;
use crate::table::{Bounds, Entry, Holder, Table};

/// Nodes that have a chunk.
pub type Nodes = SmallVec<[u32; 4]>;

/// Candidates kept for each copy, so that there is a choice by load.
const CHOICE: usize = 2;

/// How large the table of shared chunks may be.
pub fn bounds(entries: usize, copies: usize) -> Bounds {
    Bounds { entries, nodes: CHOICE * copies }
}

/// What a rank has to say to the reduction: its chunks, and the nodes that have each `stored` already.
pub fn leaf(holder: Holder, chunks: &[Chunk<'_>], stored: &[Nodes], bounds: Bounds) -> Table {
    let entry = |(chunk, stored): (&Chunk<'_>, &Nodes)| Entry {
        hash: chunk.hash,
        length: chunk.bytes.len() as u32,
        ranks: 1,
        stored: stored.clone(),
        holders: SmallVec::from_slice(&[holder]),
    };
    Table::new(chunks.iter().zip(stored).map(entry).collect(), bounds)
}

/// What a rank does for chunks that are not in the table, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Sent to each partner.
    pub partner: u64,
    /// Stored and sent, all together.
    pub all: u64,
}

impl Load {
    /// Of a rank's chunks.
    pub fn of(chunks: &[Chunk<'_>], stored: &[Nodes], shared: &Table, copies: usize) -> Load {
        let mut load = Load::default();
        for (chunk, stored) in chunks.iter().zip(stored).filter(|(chunk, _)| shared.get(&chunk.hash).is_none()) {
            let missing = copies.saturating_sub(stored.len()) as u64;
            let length = chunk.bytes.len() as u64;
            load.all += missing * length;
            load.partner += if missing > 1 { length } else { 0 };
        }
        load
    }
}

/// What all ranks know, each having computed it for itself.
pub struct Plan<'a> {
    shared: Table,
    placed: Vec<Placed>,
    ring: Ring<'a>,
    copies: usize,
}

impl<'a> Plan<'a> {
    /// Plans for the chunks that ranks share, and for what each rank has beside these.
    pub fn new(shared: Table, loads: &[Load], nodes: &'a [u32], copies: usize, by_loads: bool) -> Plan<'a> {
        let sent: Vec<u64> = loads.iter().map(|load| load.partner).collect();
        let order = if by_loads { by_load(&sent, nodes, copies) } else { unordered(nodes) };
        let ring = Ring::new(order, nodes);
        let mut work: Vec<u64> = loads.iter().map(|load| load.all).collect();
        let placed = own(&shared, &ring, &mut work, copies);
        Plan { shared, placed, ring, copies }
    }

    /// What a rank does.
    pub fn holdings(&self, rank: u32, chunks: &[Chunk<'_>], stored: &[Nodes]) -> Holdings {
        let node = self.ring.nodes()[rank as usize];
        let partners = self.ring.partners(rank, &[node]).take(self.copies.saturating_sub(1)).collect();
        let mut holdings = Holdings { own: Vec::new(), sent: BTreeMap::new(), partners, nodes: Vec::new() };
        for (number, (chunk, stored)) in (0..).zip(chunks.iter().zip(stored)) {
            let nodes = match self.shared.get(&chunk.hash) {
                Some((at, entry)) => self.share(&mut holdings, rank, number, entry, &self.placed[at]),
                None => self.keep(&mut holdings, rank, number, stored),
            };
            holdings.nodes.push(nodes);
        }
        holdings
    }

    /// A chunk that others have, too.
    fn share(&self, holdings: &mut Holdings, rank: u32, number: u32, entry: &Entry, placed: &Placed) -> Nodes {
        if placed.owners.contains(&rank) {
            holdings.own.push(number);
        }
        for sent in placed.sent.iter().filter(|sent| sent.from == rank) {
            holdings.sent.entry(sent.to).or_default().push(number);
        }
        entry.stored.iter().copied().chain(placed.nodes(self.ring.nodes())).collect()
    }

    /// A chunk that no other rank is known to have: it is stored, and sent to partners.
    fn keep(&self, holdings: &mut Holdings, rank: u32, number: u32, stored: &Nodes) -> Nodes {
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
    /// Numbers of chunks that it stores of its own.
    pub own: Vec<u32>,
    /// For each receiver the numbers of chunks that it sends.
    pub sent: BTreeMap<u32, Vec<u32>>,
    /// Who keeps copies of its manifest.
    pub partners: Vec<u32>,
    /// For each chunk the nodes that have it then.
    pub nodes: Vec<Nodes>,
}
