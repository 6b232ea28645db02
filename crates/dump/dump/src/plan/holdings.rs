//! What all ranks know of a dump, and what one of them does for it: which chunks it stores, which it sends to whom.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Dealt, Placed, Ring, by_load, by_rank, own, unordered};
use crate::chunk::ByHash;
use crate::chunk::Chunk;
use crate::halving::Answers;
use crate::table::{Bounds, Entry, Holder, Table};
use crate::votes::{Votes, fingerprint};

/// Nodes that have a chunk.
pub type Nodes = SmallVec<[u32; 4]>;

/// Candidates kept for each copy, so that there is a choice by load.
const CHOICE: usize = 2;

/// How large a table of shared chunks may be.
pub fn bounds(entries: usize, copies: usize) -> Bounds {
    Bounds { entries, nodes: CHOICE * copies }
}

/// What a rank has to dump.
#[derive(Clone, Copy, Debug)]
pub struct Mine<'a> {
    /// The rank, and its node.
    pub holder: Holder,
    /// Its distinct chunks.
    pub chunks: &'a [Chunk<'a>],
    /// For each chunk the nodes that have it stored already.
    pub stored: &'a [Nodes],
}

impl<'a> Mine<'a> {
    /// What it asks the others: which of its chunks they have, too.
    pub fn votes(&self, bounds: Bounds) -> Votes {
        Votes::new(self.chunks.iter().map(|chunk| &chunk.hash), bounds.entries)
    }

    /// What it tells of the chunks that others have, too.
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

    /// What it has to do for the chunks that it has alone.
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

/// What a rank stores of chunks that it has alone, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Of chunks that no store has.
    pub alone: u64,
    /// Of chunks that too few stores have.
    pub again: u64,
}

/// Where shared chunks are to be, as their homes say; none where a table had no room for a chunk.
pub type Decided = ByHash<Option<Placed>>;

/// What all ranks know, each having computed it for itself.
pub struct Plan<'a> {
    ring: Ring<'a>,
    alone: Vec<u64>,
    dealt: Dealt,
    copies: usize,
}

impl<'a> Plan<'a> {
    /// Plans by what each rank has alone; `balanced`, or with static partners.
    pub fn new(loads: &[Load], nodes: &'a [u32], copies: usize, balanced: bool) -> Plan<'a> {
        let ring = Ring::new(unordered(nodes), nodes);
        let alone: Vec<u64> = loads.iter().map(|load| load.alone).collect();
        let work: Vec<u64> = loads.iter().map(|load| load.alone + load.again).collect();
        let deal = if balanced { by_load } else { by_rank };
        Plan { dealt: deal(&alone, &work, &ring, copies), ring, alone, copies }
    }

    /// Where the chunks of a home are to be. Chunks come to homes at random, so that each home evens out its share of the work
    /// as if there were no others.
    pub fn decide(&self, home: &Table) -> Decided {
        let homes = self.dealt.stored.len().max(1) as u64;
        let mut work: Vec<u64> = self.dealt.stored.iter().map(|bytes| bytes / homes).collect();
        let placed = own(home, &self.ring, &mut work, self.copies);
        home.entries().iter().map(|entry| entry.hash).zip(placed.into_iter().map(Some)).collect()
    }

    /// What a rank does.
    pub fn holdings(&self, mine: &Mine<'_>, decided: &Decided) -> Holdings {
        let Holder { node, rank } = mine.holder;
        let partners = self.ring.partners(rank, &[node]).take(self.copies.saturating_sub(1)).collect();
        let mut holdings = Holdings { own: Vec::new(), sent: BTreeMap::new(), partners, nodes: Vec::new() };
        let mut dealt = 0;
        for (number, (chunk, stored)) in (0..).zip(mine.each()) {
            let nodes = match decided.get(&chunk.hash) {
                Some(Some(placed)) => self.share(&mut holdings, rank, number, placed),
                _ if stored.is_empty() && dealt < self.alone[rank as usize] => {
                    dealt += chunk.bytes.len() as u64;
                    self.deal(&mut holdings, rank, number, dealt - chunk.bytes.len() as u64)
                }
                _ => self.keep(&mut holdings, rank, number, stored),
            };
            holdings.nodes.push(nodes);
        }
        holdings
    }

    /// A chunk that others have, too.
    fn share(&self, holdings: &mut Holdings, rank: u32, number: u32, placed: &Placed) -> Nodes {
        if placed.owners.contains(&rank) {
            holdings.own.push(number);
        }
        for sent in placed.sent.iter().filter(|sent| sent.from == rank) {
            holdings.sent.entry(sent.to).or_default().push(number);
        }
        placed.nodes(self.ring.nodes()).collect()
    }

    /// A chunk that no other rank is known to have, at this place in the row of all such: it is stored, and sent to those in whose
    /// shares it lies. A row for each copy after the other; no share is longer than a row.
    fn deal(&self, holdings: &mut Holdings, rank: u32, number: u32, place: u64) -> Nodes {
        let (shares, row) = (&self.dealt.shares[rank as usize], self.alone[rank as usize]);
        holdings.own.push(number);
        let mut nodes = Nodes::from_slice(&[self.ring.nodes()[rank as usize]]);
        let mut end = 0;
        for (to, bytes) in shares {
            let start = end;
            end += bytes;
            // The first copy that lies at or after the share's start.
            let copy = start.saturating_sub(place).div_ceil(row);
            if copy * row + place < end {
                holdings.sent.entry(*to).or_default().push(number);
                nodes.push(self.ring.nodes()[*to as usize]);
            }
        }
        nodes
    }

    /// A chunk that is stored already, or was not foreseen: what is missing is sent to partners.
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
