//! Computes the cost of a dump for many ranks in one process. It runs the same steps as a dump, but moves no bytes.

use serde::Serialize;

use crate::chunk::Chunk;
use crate::halving::{Answers, Halving, Known};
use crate::manifest::encode;
use crate::plan::{Decided, Load, Mine, Nodes, Plan, bounds};
use crate::table::Holder;
use crate::votes::Votes;
use crate::{Duplicates, Options, Result};

/// The cost of a dump for one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Messages that it receives before chunks move: knowledge of other ranks, and answers.
    pub messages: u64,
    /// Bytes of these messages.
    pub asked: u64,
    /// Bytes of the other ranks' loads, which all ranks exchange. This is the only part of planning that grows with the
    /// number of ranks.
    pub gathered: u64,
    /// The largest number of chunks, of its own and of others, whose entries it holds at a time.
    pub entries: usize,
    /// Bytes of its own chunks that it stores.
    pub own: u64,
    /// Bytes of chunks that it sends.
    pub sent: u64,
    /// Bytes of chunks that it receives, and stores.
    pub received: u64,
    /// Number of ranks that it sends to.
    pub partners: u64,
}

/// Returns the cost for each rank. There is one rank for each entry of `nodes`; `chunks` returns a rank's distinct
/// chunks, and the stores are empty.
pub fn simulate<'a>(nodes: &[u32], chunks: impl Fn(u32) -> Vec<Chunk<'a>>, options: &Options) -> Result<Vec<Cost>> {
    let node_count = nodes.iter().max().map_or(0, |last| *last as usize + 1);
    let copies = node_count.min(options.replicas as usize);
    let bounds = bounds(options.table, copies);
    let collective = options.duplicates == Duplicates::Collective;
    let chunks: Vec<Vec<Chunk<'a>>> = (0..nodes.len() as u32).map(chunks).collect();
    let stored: Vec<Vec<Nodes>> = chunks.iter().map(|chunks| vec![Nodes::new(); chunks.len()]).collect();
    let ranks = (0..).zip(nodes).zip(chunks.iter().zip(&stored));
    let mine =
        ranks.map(|((rank, node), (chunks, stored))| Mine { holder: Holder { node: *node, rank }, chunks, stored });
    let mine: Vec<Mine<'_>> = mine.collect();
    let mut costs = vec![Cost::default(); nodes.len()];

    let votes = mine.iter().map(|mine| mine.votes(bounds)).collect();
    let voted = match collective {
        true => meet(votes, (), |votes| votes.shared().collect(), &mut costs)?,
        false => vec![Answers::<Votes, bool>::default(); mine.len()],
    };
    let loads: Vec<Load> = mine.iter().zip(&voted).map(|(mine, voted)| mine.load(voted, copies)).collect();
    let told = loads.iter().map(|load| Ok(encode(load)?.len() as u64)).sum::<Result<u64>>()?;
    costs.iter_mut().for_each(|cost| cost.gathered = told);
    let plan = Plan::new(&loads, nodes, copies, options.by_load);
    let tables = mine.iter().zip(&voted).map(|(mine, voted)| mine.table(voted, bounds)).collect();
    let decided = match collective {
        true => meet(tables, bounds, |home| plan.decide(home), &mut costs)?,
        false => vec![Decided::default(); mine.len()],
    };
    for (rank, (mine, decided)) in mine.iter().zip(&decided).enumerate() {
        let holdings = plan.holdings(mine, decided);
        let bytes = |numbers: &[u32]| numbers.iter().map(|n| mine.chunks[*n as usize].bytes.len() as u64).sum::<u64>();
        costs[rank].own = bytes(&holdings.own);
        for (to, numbers) in &holdings.sent {
            costs[rank].partners += 1;
            costs[rank].sent += bytes(numbers);
            costs[*to as usize].received += bytes(numbers);
        }
    }
    Ok(costs)
}

/// Does the same as [`crate::halving::meet`] for all ranks at once, level by level.
fn meet<K: Known, A: Clone + Default + Serialize>(
    known: Vec<K>,
    bounds: K::Bounds,
    answer: impl Fn(&K) -> Answers<K, A>,
    costs: &mut [Cost],
) -> Result<Vec<Answers<K, A>>> {
    let size = known.len() as u32;
    let mut ranks: Vec<Halving<K>> =
        (0..).zip(known).map(|(rank, known)| Halving::new(known, bounds, rank, size)).collect();
    let depth = ranks.iter().map(|rank| rank.levels().len()).max().unwrap_or(0);
    let mut receives = |to: u32, bytes: usize| {
        costs[to as usize].messages += 1;
        costs[to as usize].asked += bytes as u64;
    };
    for level in 0..depth {
        let sends = |rank: &mut Halving<K>| Some((rank.levels().get(level)?.to, rank.send()));
        let sent: Vec<(u32, K)> = ranks.iter_mut().filter_map(sends).collect();
        for (to, known) in sent {
            receives(to, encode(&known)?.len());
            ranks[to as usize].receive(known);
        }
    }
    let mut answers: Vec<Answers<K, A>> = ranks.iter().map(|rank| answer(&rank.known)).collect();
    for level in (0..depth).rev() {
        let replies = |(rank, answers): (&Halving<K>, &Answers<K, A>)| {
            let from = rank.levels().get(level).map(|level| level.from.clone()).unwrap_or_default();
            from.into_iter().zip(rank.answers(level, answers))
        };
        let said: Vec<(u32, Vec<A>)> = ranks.iter().zip(&answers).flat_map(replies).collect();
        for (to, said) in said {
            receives(to, encode(&said)?.len());
            ranks[to as usize].learn(level, said, &mut answers[to as usize]);
        }
    }
    for (rank, cost) in ranks.iter().zip(costs) {
        cost.entries = cost.entries.max(rank.most());
    }
    Ok(answers)
}
