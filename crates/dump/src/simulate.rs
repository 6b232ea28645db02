//! What a dump costs each of many ranks, computed in one process by the very steps that a dump takes; no bytes move.

use crate::chunk::Chunk;
use crate::plan::{Load, Nodes, Plan, bounds, leaf};
use crate::reduce::{encode, tree};
use crate::table::{Bounds, Holder, Table};
use crate::{Duplicates, Options, Result};

/// What a dump costs a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tables that it receives, up and down the tree.
    pub tables: u64,
    /// Bytes of these.
    pub table_bytes: u64,
    /// Entries of the largest table that it holds.
    pub entries: usize,
    /// Bytes of its own chunks that it stores.
    pub own: u64,
    /// Bytes of chunks that it sends.
    pub sent: u64,
    /// Bytes of chunks that it receives, and stores.
    pub received: u64,
    /// To how many ranks it sends.
    pub partners: u64,
}

/// The cost for each rank, where a rank for each of `nodes` has the distinct chunks that `chunks` tells, and no store has
/// anything.
pub fn simulate<'a>(nodes: &[u32], chunks: impl Fn(u32) -> Vec<Chunk<'a>>, options: &Options) -> Result<Vec<Cost>> {
    let node_count = nodes.iter().max().map_or(0, |last| *last as usize + 1);
    let copies = node_count.min(options.replicas as usize);
    let mut tables = Tables {
        nodes,
        chunks: &chunks,
        bounds: bounds(options.table, copies),
        costs: vec![Cost::default(); nodes.len()],
    };
    let shared = match options.duplicates {
        Duplicates::Collective => tables.reduce()?,
        _ => Table::default(),
    };
    let mut costs = tables.costs;
    let ranks = 0..nodes.len() as u32;
    let load = |rank| {
        let chunks = chunks(rank);
        Load::of(&chunks, &vec![Nodes::new(); chunks.len()], &shared, copies)
    };
    let loads: Vec<Load> = ranks.clone().map(load).collect();
    let plan = Plan::new(shared, &loads, nodes, copies, options.by_load);
    for rank in ranks {
        let chunks = chunks(rank);
        let holdings = plan.holdings(rank, &chunks, &vec![Nodes::new(); chunks.len()]);
        let bytes = |numbers: &[u32]| numbers.iter().map(|n| chunks[*n as usize].bytes.len() as u64).sum::<u64>();
        costs[rank as usize].own = bytes(&holdings.own);
        for (to, numbers) in &holdings.sent {
            costs[rank as usize].partners += 1;
            costs[rank as usize].sent += bytes(numbers);
            costs[*to as usize].received += bytes(numbers);
        }
    }
    Ok(costs)
}

/// The reduction of all ranks' tables.
struct Tables<'n, F> {
    nodes: &'n [u32],
    chunks: F,
    bounds: Bounds,
    costs: Vec<Cost>,
}

impl<'a, F: Fn(u32) -> Vec<Chunk<'a>>> Tables<'_, F> {
    fn reduce(&mut self) -> Result<Table> {
        let shared = self.merged(0)?.shared();
        let bytes = encode(&shared)?.len() as u64;
        for cost in &mut self.costs[1..] {
            cost.tables += 1;
            cost.table_bytes += bytes;
        }
        Ok(shared)
    }

    /// What a rank has merged of those below it.
    fn merged(&mut self, rank: u32) -> Result<Table> {
        let chunks = (self.chunks)(rank);
        let holder = Holder { node: self.nodes[rank as usize], rank };
        let mut table = leaf(holder, &chunks, &vec![Nodes::new(); chunks.len()], self.bounds);
        let mut cost = Cost { entries: table.entries().len(), ..Cost::default() };
        for other in tree(rank, self.nodes.len() as u32).0 {
            let other = self.merged(other)?;
            cost.tables += 1;
            cost.table_bytes += encode(&other)?.len() as u64;
            table = table.merge(other, self.bounds);
            cost.entries = cost.entries.max(table.entries().len());
        }
        self.costs[rank as usize] = cost;
        Ok(table)
    }
}
