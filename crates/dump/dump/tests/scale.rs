//! Many ranks in one process: what a dump costs each of them.

#![allow(clippy::unwrap_used)]

use terrace_dump::chunk::{Chunk, Hash};
use terrace_dump::simulate::{Cost, simulate};
use terrace_dump::{Duplicates, Options};

/// Ranks of a node, as in the paper.
const NODE: u32 = 12;
const TABLE: usize = 256;

/// One figure of a rank's cost.
type Part = fn(&Cost) -> u64;

const BYTES: [u8; 4096] = [0; 4096];

/// A rank's chunks: 60 that all have, 20 that neighbours have, some of its own; a part of the domain has many of these.
fn chunks(rank: u32) -> Vec<Chunk<'static>> {
    let own = if heavy(rank) { 100 } else { 10 };
    let all = (0..60).map(|i| (0, i));
    let near = (0..20).map(|i| (1 + rank / 4, i));
    let own = (0..own).map(|i| (1_000_000 + rank, i));
    let chunk = |(of, i): (u32, u32)| {
        let hash = Hash::of(&[of.to_le_bytes(), i.to_le_bytes()].concat());
        Chunk { hash, bytes: &BYTES }
    };
    all.chain(near).chain(own).map(chunk).collect()
}

/// Ranks of a part of the domain in which there is more to tell: a seventh of the nodes, one after the other.
fn heavy(rank: u32) -> bool {
    rank / NODE % 14 < 2
}

fn costs(ranks: u32, options: &Options) -> Vec<Cost> {
    let nodes: Vec<u32> = (0..ranks).map(|rank| rank / NODE).collect();
    simulate(&nodes, chunks, options).unwrap()
}

#[test]
fn what_a_rank_does_grows_no_faster_than_a_logarithm_of_their_number() {
    let options = Options { table: TABLE, ..Options::default() };
    let (few, many) = (costs(408, &options), costs(10_000, &options));
    for costs in [&few, &many] {
        let depth = u64::from((costs.len() as u32).next_power_of_two().ilog2());
        for cost in costs {
            // Votes and tables, up and down; of the uneven half two ranks send to one.
            assert!(cost.messages <= 2 * 2 * (depth + 1) * 3 / 2, "{} messages", cost.messages);
            assert!(cost.entries <= 2 * TABLE, "a table is bounded");
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
        // What is asked may grow as levels do; what is stored and moved is to stay as it is.
        let growth = if what == "asked" { 10_000f64.ln() / 408f64.ln() } else { 1.25 };
        for (few, many) in [(mean(&few), mean(&many)), (most(&few), most(&many))] {
            assert!(many as f64 <= few as f64 * growth, "{what}: {many} bytes a rank of 10,000, {few} of 408");
        }
    }
}

#[test]
fn every_chunk_is_where_it_should_be_at_any_scale() {
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
fn partners_by_load_receive_less_at_most_than_static_ones() {
    let most = |by_load| {
        let options = Options { by_load, ..Options::default() };
        costs(408, &options).iter().map(|cost| cost.received).max().unwrap()
    };
    let (ours, plain) = (most(true), most(false));
    assert!(ours * 10 <= plain * 7, "{ours} bytes received at most, {plain} from static partners");
}
