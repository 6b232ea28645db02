//! Simulated dumps with as many ranks as in the paper. They take the steps of real dumps, but move no bytes.

use anyhow::Result;
use terrace_dump::chunk::{Chunk, Chunking, Chunks, Hash};
use terrace_dump::simulate::{Cost, simulate};
use terrace_dump::{Duplicates, Options};

use super::{DISK_BYTES_PER_SECOND, LINK_BYTES_PER_SECOND, REPLICATION_FACTORS};
use crate::row::{Better, Row};

const RANK_COUNT: u32 = 408;
const RANKS_PER_NODE: u32 = 12;
const ZERO_PAGE: [u8; 4096] = [0; 4096];
/// The number of distinct chunks of a rank. A rank has [`LOCAL_REDUNDANCY`] times as many chunks, and 1 of
/// [`SHARED_REDUNDANCY`] distinct chunks is unique to it. This is the redundancy of HPCCG in the paper's figures: 9.8x
/// over full replication and 2.8x over local deduplication.
const DISTINCT_CHUNKS_PER_RANK: u32 = 1000;
const LOCAL_REDUNDANCY: f64 = 9.8 / 2.8;
const SHARED_REDUNDANCY: f64 = 2.8;

/// Makes the distinct chunks of a rank; no other rank has the first `alone` chunks.
fn chunks(rank: u32, alone: u32, all: u32) -> Vec<Chunk<'static>> {
    let own = (0..alone).map(|i| (rank + 1, i));
    let all = (0..all).map(|i| (0, i));
    let hash = |(of, i): (u32, u32)| Hash::of(&[of.to_le_bytes(), i.to_le_bytes()].concat());
    own.chain(all).map(|chunk| Chunk { hash: hash(chunk), bytes: &ZERO_PAGE }).collect()
}

fn nodes() -> Vec<u32> {
    (0..RANK_COUNT).map(|rank| rank / RANKS_PER_NODE).collect()
}

/// Returns the seconds of the slowest rank.
fn longest(costs: &[Cost]) -> f64 {
    let seconds = |cost: &Cost| {
        let moved = (cost.sent.max(cost.received) + cost.asked) as f64;
        (cost.own + cost.received) as f64 / DISK_BYTES_PER_SECOND + moved / LINK_BYTES_PER_SECOND
    };
    costs.iter().map(seconds).fold(0.0, f64::max)
}

/// Returns the seconds of a dump that spreads its bytes evenly over the ranks and agrees at no cost.
fn bound(costs: &[Cost]) -> f64 {
    let sum = |of: fn(&Cost) -> u64| costs.iter().map(of).sum::<u64>() as f64 / costs.len() as f64;
    sum(|cost| cost.own + cost.received) / DISK_BYTES_PER_SECOND + sum(|cost| cost.sent) / LINK_BYTES_PER_SECOND
}

pub fn run() -> Result<Vec<Row>> {
    let alone = (f64::from(DISTINCT_CHUNKS_PER_RANK) / SHARED_REDUNDANCY) as u32;
    let mut rows = Vec::new();
    for replicas in REPLICATION_FACTORS {
        let cost = |duplicates, by_load| {
            let options = Options { replicas, duplicates, by_load, ..Options::default() };
            simulate(&nodes(), |rank| chunks(rank, alone, DISTINCT_CHUNKS_PER_RANK - alone), &options)
        };
        let (local, ours) = (cost(Duplicates::Local, true)?, cost(Duplicates::Collective, true)?);
        // Without deduplication, each distinct chunk exists `LOCAL_REDUNDANCY` times.
        let (none, local_time, time) = (longest(&local) * LOCAL_REDUNDANCY, longest(&local), longest(&ours));
        for (line, seconds) in [("no deduplication", none), ("local", local_time), ("collective", time)] {
            rows.push(Row::point("D", "408 simulated ranks: time, by factor", line, replicas, seconds, "s"));
        }
        let details = format!(
            "{RANK_COUNT} simulated ranks, {RANKS_PER_NODE} a node, {DISTINCT_CHUNKS_PER_RANK} distinct chunks each; byte bound {:.2}x over full replication, {:.2}x over local; asked {:.0} KB a rank at most, counted; computing is not",
            bound(&local) * LOCAL_REDUNDANCY / bound(&ours),
            bound(&local) / bound(&ours),
            ours.iter().map(|cost| cost.asked).max().unwrap_or(0) as f64 / 1e3
        );
        let row = |id: &str, what: &str, ratio: f64, goal: f64| {
            Row::new(id, format!("408 simulated ranks, factor {replicas}: faster than {what}"), ratio, "x")
                .beside(goal, Better::Higher)
                .details(details.clone())
        };
        let (full, part) =
            (row("D1", "full replication", none / time, 9.8), row("D2", "local deduplication", local_time / time, 2.8));
        rows.extend(if replicas == 3 {
            [full.goal(9.8, Better::Higher), part.goal(2.8, Better::Higher)]
        } else {
            [full, part]
        });
        if replicas == 3 {
            let sent =
                |costs: &[Cost]| costs.iter().map(|cost| cost.sent).sum::<u64>() as f64 / f64::from(RANK_COUNT) / 1e6;
            rows.push(
                Row::new("D3", "408 simulated ranks, factor 3: sent per rank", sent(&ours), "MB")
                    .beside(sent(&local) * LOCAL_REDUNDANCY, Better::Lower)
                    .details(format!("beside: full replication; {:.2} MB with local deduplication", sent(&local))),
            );
        }
    }
    rows.push(uneven("every seventh rank heavy", |rank| rank % 7 == 0)?);
    rows.push(uneven("neighbouring nodes heavy", |rank| rank / RANKS_PER_NODE % 14 < 2)?);
    Ok(rows)
}

/// Measures ranks with uneven loads: the `heavy` ranks, a seventh of all, have ten times as many unique chunks.
fn uneven(which: &str, heavy: impl Fn(u32) -> bool) -> Result<Row> {
    let most = |by_load| {
        let options = Options { by_load, ..Options::default() };
        let alone = |rank| if heavy(rank) { 1000 } else { 100 };
        let costs = simulate(&nodes(), |rank| chunks(rank, alone(rank), 500), &options)?;
        anyhow::Ok(costs.iter().map(|cost| cost.received).max().unwrap_or(0) as f64)
    };
    Ok(lower(&format!("408 simulated ranks, {which}"), most(false)?, most(true)?))
}

fn lower(what: &str, plain: f64, ours: f64) -> Row {
    Row::new(
        "D4",
        format!("{what}: largest receive lower than from static partners"),
        (1.0 - ours / plain) * 100.0,
        "%",
    )
    .beside(30.0, Better::Higher)
    .goal(30.0, Better::Higher)
    .details(format!("factor 3; {:.2} MB instead of {:.2} MB", ours / 1e6, plain / 1e6))
}

/// Compares partners chosen by load with static partners, on the memory of real ranks.
pub fn partners(what: &str, pages: &[Vec<u8>]) -> Result<Vec<Row>> {
    let most = |by_load, replicas| {
        let costs = costs(pages, &Options { by_load, replicas, ..Options::default() })?;
        anyhow::Ok(costs.iter().map(|cost| cost.received).max().unwrap_or(0) as f64)
    };
    let mut rows = Vec::new();
    for replicas in REPLICATION_FACTORS {
        let title = format!("{what}: largest receive of a rank, by factor");
        let value = most(false, replicas)? / 1e6;
        rows.push(Row::point("D", &title, "collective, static partners", replicas, value, "MB"));
    }
    let row = lower(&format!("{what}, 8 ranks"), most(false, 3)?, most(true, 3)?);
    let mean =
        costs(pages, &Options::default())?.iter().map(|cost| cost.received).sum::<u64>() as f64 / pages.len() as f64;
    let details = format!("{}; evenly it would be {:.2} MB", row.details, mean / 1e6);
    rows.push(row.details(details));
    Ok(rows)
}

fn costs(pages: &[Vec<u8>], options: &Options) -> Result<Vec<Cost>> {
    let nodes: Vec<u32> = (0..pages.len() as u32).collect();
    let chunks = |rank: u32| Chunks::of(&[&pages[rank as usize][..]], options.chunking).distinct;
    Ok(simulate(&nodes, chunks, options)?)
}

/// Measures how many duplicates other chunk sizes find.
pub fn chunk_sizes(what: &str, pages: &[Vec<u8>]) -> Result<Vec<Row>> {
    let all: usize = pages.iter().map(Vec::len).sum();
    let sizes = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
    let fixed = sizes.map(|size| (format!("{} KiB", size >> 10), Chunking::Fixed(size)));
    let by_content =
        [4 << 10, 16 << 10].map(|size| (format!("by content, about {} KiB", size >> 10), Chunking::Content(size)));
    let mut rows = Vec::new();
    for (name, chunking) in fixed.into_iter().chain(by_content) {
        let costs = costs(pages, &Options { chunking, ..Options::default() })?;
        let share =
            |of: fn(&Cost) -> u64, copies| costs.iter().map(of).sum::<u64>() as f64 / (all * copies) as f64 * 100.0;
        let (stored, sent) = (share(|cost| cost.own + cost.received, 3), share(|cost| cost.sent, 2));
        for (line, value) in [("stored", stored), ("sent", sent)] {
            let title = format!("{what}: of full replication, by chunks, factor 3");
            rows.push(Row::point("D", &title, line, name.replace("about ", ""), value, "%"));
        }
        let row = Row::new("D3", format!("{what}, chunks {name}: stored of what full replication does"), stored, "%");
        rows.push(row.details(format!("factor 3; sent {sent:.1} %")));
    }
    Ok(rows)
}
