//! What one rank does for a dump: which chunks it stores, which it sends to whom, and who has what in the end.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::{Duplicates, Options};
use crate::Result;
use crate::chunk::Chunk;
use crate::manifest::{self, Held};
use crate::plan::{self, Placed, Ring};
use crate::reduce::reduce;
use crate::table::{Bounds, Entry, Holder, Table};
use crate::transport::World;

/// A rank's part of the plan.
pub struct Holdings {
    /// Numbers of chunks that it stores of its own.
    pub own: Vec<u32>,
    /// For each receiver the numbers of chunks that it sends.
    pub sent: BTreeMap<u32, Vec<u32>>,
    /// Who keeps copies of its manifest.
    pub partners: Vec<u32>,
    /// For each chunk the nodes that have it then.
    nodes: Vec<SmallVec<[u32; 4]>>,
}

/// Candidates kept for each copy, so that there is a choice by load.
const CHOICE: usize = 2;

impl Holdings {
    /// Plans what becomes of `chunks`, which nodes have as `stored` says. Collective.
    pub fn plan(
        world: &dyn World,
        chunks: &[Chunk<'_>],
        stored: &[SmallVec<[u32; 4]>],
        copies: usize,
        options: &Options,
    ) -> Result<Holdings> {
        let bounds = Bounds { entries: options.table, nodes: CHOICE * copies };
        let shared = match options.duplicates {
            Duplicates::Collective => reduce(world, leaf(world, chunks, stored, bounds), bounds)?,
            _ => Table::default(),
        };
        let alone = |number: &usize| shared.get(&chunks[*number].hash).is_none();
        let unique: Vec<usize> = (0..chunks.len()).filter(alone).collect();
        let loads = loads(world, chunks, stored, &unique, copies)?;
        let order = match options.by_load {
            true => plan::by_load(&loads.iter().map(|load| load.partner).collect::<Vec<_>>(), world.nodes(), copies),
            false => plan::unordered(world.nodes()),
        };
        let ring = Ring::new(order, world.nodes());
        let mut work: Vec<u64> = loads.iter().map(|load| load.all).collect();
        let placed = plan::own(&shared, &ring, &mut work, copies);

        let partners = ring.partners(world.rank(), &[world.node()]).take(copies.saturating_sub(1)).collect();
        let nodes = vec![SmallVec::new(); chunks.len()];
        let mut holdings = Holdings { own: Vec::new(), sent: BTreeMap::new(), partners, nodes };
        for (number, chunk) in chunks.iter().enumerate() {
            match shared.get(&chunk.hash) {
                Some((at, entry)) => holdings.share(world, number, entry, &placed[at]),
                None => holdings.keep(world, number, &stored[number], &ring, copies),
            }
        }
        Ok(holdings)
    }

    /// Does what the plan says of a chunk that others have, too.
    fn share(&mut self, world: &dyn World, number: usize, entry: &Entry, placed: &Placed) {
        if placed.owners.contains(&world.rank()) {
            self.own.push(number as u32);
        }
        for sent in placed.sent.iter().filter(|sent| sent.from == world.rank()) {
            self.sent.entry(sent.to).or_default().push(number as u32);
        }
        self.nodes[number] = entry.stored.iter().copied().chain(placed.nodes(world.nodes())).collect();
    }

    /// Stores a chunk that no other rank is known to have, and sends it to partners.
    fn keep(&mut self, world: &dyn World, number: usize, stored: &[u32], ring: &Ring<'_>, copies: usize) {
        let mut nodes: SmallVec<[u32; 4]> = stored.into();
        if nodes.len() < copies && !nodes.contains(&world.node()) {
            self.own.push(number as u32);
            nodes.push(world.node());
        }
        let missing = copies.saturating_sub(nodes.len());
        for to in ring.partners(world.rank(), &nodes).take(missing) {
            self.sent.entry(to).or_default().push(number as u32);
            nodes.push(world.nodes()[to as usize]);
        }
        self.nodes[number] = nodes;
    }

    /// The chunks as a manifest names them.
    pub fn held(&self, chunks: &[Chunk<'_>]) -> Vec<Held> {
        let held = |(chunk, stores): (&Chunk<'_>, &SmallVec<[u32; 4]>)| Held {
            hash: chunk.hash,
            length: chunk.bytes.len() as u32,
            stores: stores.clone(),
        };
        chunks.iter().zip(&self.nodes).map(held).collect()
    }
}

/// What this rank has to say to the reduction.
fn leaf(world: &dyn World, chunks: &[Chunk<'_>], stored: &[SmallVec<[u32; 4]>], bounds: Bounds) -> Table {
    let holder = Holder { node: world.node(), rank: world.rank() };
    let entry = |(chunk, stored): (&Chunk<'_>, &SmallVec<[u32; 4]>)| Entry {
        hash: chunk.hash,
        length: chunk.bytes.len() as u32,
        ranks: 1,
        stored: stored.clone(),
        holders: SmallVec::from_slice(&[holder]),
    };
    Table::new(chunks.iter().zip(stored).map(entry).collect(), bounds)
}

/// What a rank does for chunks that nobody shares, in bytes.
#[derive(serde::Serialize, serde::Deserialize)]
struct Load {
    /// Sent to each partner.
    partner: u64,
    /// Stored and sent, all together.
    all: u64,
}

/// What each rank does for chunks that nobody shares. Collective.
fn loads(
    world: &dyn World,
    chunks: &[Chunk<'_>],
    stored: &[SmallVec<[u32; 4]>],
    unique: &[usize],
    copies: usize,
) -> Result<Vec<Load>> {
    let mut mine = Load { partner: 0, all: 0 };
    for number in unique {
        let missing = copies.saturating_sub(stored[*number].len()) as u64;
        let length = chunks[*number].bytes.len() as u64;
        mine.all += missing * length;
        mine.partner += if missing > 1 { length } else { 0 };
    }
    let all = world.all_gather(&manifest::encode(&mine)?)?;
    all.iter().map(|load| manifest::decode("a rank's load", load)).collect()
}
