//! Many ranks in one process: the cost of a dump for each rank.

#![allow(clippy::unwrap_used)]

use terrace_dump::chunk::{Chunk, Hash};
use terrace_dump::simulate::{Cost, simulate};
use terrace_dump::{Duplicates, Options};

/// The number of ranks of a node, as in the paper.
const RANKS_PER_NODE: u32 = 12;
const TABLE_ENTRIES: usize = 256;

/// One figure of a rank's cost.
type Part = fn(&Cost) -> u64;

const ZERO_PAGE: [u8; 4096] = [0; 4096];

/// Makes a rank's chunks: 60 that all ranks have, 20 that neighbours share, and some of its own, which are many in a
/// part of the domain.
fn chunks(rank: u32) -> Vec<Chunk<'static>> {
    let own = if heavy(rank) { 100 } else { 10 };
    let all = (0..60).map(|i| (0, i));
    let near = (0..20).map(|i| (1 + rank / 4, i));
    let own = (0..own).map(|i| (1_000_000 + rank, i));
    let chunk = |(of, i): (u32, u32)| {
        let hash = Hash::of(&[of.to_le_bytes(), i.to_le_bytes()].concat());
        Chunk { hash, bytes: &ZERO_PAGE }
    };
    all.chain(near).chain(own).map(chunk).collect()
}

/// Returns whether a rank is in the part of the domain with more data: a seventh of the nodes, consecutively.
fn heavy(rank: u32) -> bool {
    rank / RANKS_PER_NODE % 14 < 2
}

fn costs(ranks: u32, options: &Options) -> Vec<Cost> {
    let nodes: Vec<u32> = (0..ranks).map(|rank| rank / RANKS_PER_NODE).collect();
    simulate(&nodes, chunks, options).unwrap()
}

#[test]
fn work_per_rank_grows_at_most_logarithmically() {
    let options = Options { table: TABLE_ENTRIES, ..Options::default() };
    let (few, many) = (costs(408, &options), costs(10_000, &options));
    for costs in [&few, &many] {
        let depth = u64::from((costs.len() as u32).next_power_of_two().ilog2());
        for cost in costs {
            // The messages are votes and tables, up and down. In the uneven half, two ranks send to one.
            assert!(cost.messages <= 2 * 2 * (depth + 1) * 3 / 2, "{} messages", cost.messages);
            assert!(cost.entries <= 2 * TABLE_ENTRIES, "a table is bounded");
            assert!(cost.partners <= 12, "{} partners", cost.partners);
            assert!(cost.gathered <= 8 * costs.len() as u64, "{} bytes gathered", cost.gathered);
        }
    }
    let parts: [(&str, Part); 4] = [
        ("stored of its own", |cost| cost.own),
        ("sent", |cost| cost.sent),
        ("received", |cost| cost.received),
        ("asked", |cost| cost.asked),
    ];
    eprintln!("gathered: {} and {}", few[0].gathered, many[0].gathered);
    for (what, of) in parts {
        let mean = |costs: &[Cost]| costs.iter().map(of).sum::<u64>() / costs.len() as u64;
        let most = |costs: &[Cost]| costs.iter().map(of).max().unwrap();
        eprintln!("{what}: mean {} and {}, most {} and {}", mean(&few), mean(&many), most(&few), most(&many));
        // The bytes asked may grow with the number of levels; stored and moved bytes must not grow.
        let growth = if what == "asked" { 10_000f64.ln() / 408f64.ln() } else { 1.25 };
        for (few, many) in [(mean(&few), mean(&many)), (most(&few), most(&many))] {
            assert!(many as f64 <= few as f64 * growth, "{what}: {many} bytes a rank of 10,000, {few} of 408");
        }
    }
}

#[test]
fn every_chunk_has_its_replicas_at_any_scale() {
    for duplicates in [Duplicates::Kept, Duplicates::Local, Duplicates::Collective] {
        for replicas in 1..=6 {
            let options = Options { replicas, duplicates, ..Options::default() };
            let costs = costs(408, &options);
            let stored: u64 = costs.iter().map(|cost| cost.own + cost.received).sum();
            let shared: u64 = 60 + 20 * 102;
            let own: u64 = (0..408).map(|rank| if heavy(rank) { 100 } else { 10 }).sum();
            let chunks = match duplicates {
                Duplicates::Collective => shared + own,
                _ => 408 * 80 + own,
            };
            assert_eq!(stored, chunks * u64::from(replicas) * 4096, "{duplicates:?}, {replicas}");
        }
    }
}

#[test]
fn partners_by_load_lower_the_largest_receive() {
    let most = |by_load| {
        let options = Options { by_load, ..Options::default() };
        costs(408, &options).iter().map(|cost| cost.received).max().unwrap()
    };
    let (ours, plain) = (most(true), most(false));
    assert!(ours * 10 <= plain * 7, "{ours} bytes received at most, {plain} from static partners");
}
