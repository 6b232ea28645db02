//! Claim H4 (HReplica Fig. 5b): stores and locates of the catalog per second.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use terrace::catalog::{Attributes, Catalog, Change, Edit, Expect, Extent, NewExtent, Replica};
use terrace::tier::Place as Stored;
use terrace::{Encoding, Store};

use crate::place::Place;
use crate::row::{Better, PageRow, Row};
use crate::timing::{Times, median};
use crate::workers;

const RUN_DURATION: Duration = Duration::from_millis(1000);
const REPEAT_COUNT: usize = 3;
/// Locates choose from this many keys.
const KEY_COUNT: u64 = 100_000;

/// The work of one process.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Work {
    /// `clients` threads store, each with `depth` commits in flight.
    Store { clients: usize, depth: usize },
    /// One thread locates.
    Locate,
}

pub const PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "H4",
    "stores, 2 processes, 256 in flight each",
    "Catalog commits per second, beside 16 nodes of HReplica",
)];

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    let stores = |processes, clients, depth| -> Result<(f64, Times)> {
        let (mut rates, mut times) = (Vec::new(), Vec::new());
        for repeat in 0..REPEAT_COUNT {
            let store = place.store(&format!("catalog-{processes}-{clients}-{depth}-{repeat}"), 0)?;
            let printed = workers::run(store.dir(), processes, &Work::Store { clients, depth })?;
            rates.push(printed.iter().map(|p| p[0]).sum());
            times.extend(printed.into_iter().flat_map(|p| p[1..].to_vec()));
        }
        Ok((median(rates), Times::new(times)))
    };
    let latency = |times: &Times| {
        format!("a call: median {:.0} us, p99 {:.0} us", times.median() * 1e6, times.quantile(0.99) * 1e6)
    };
    let (rate, times) = stores(2, 1, 256)?;
    rows.push(
        Row::new("H4", "stores, 2 processes, 256 in flight each", rate, "stores/s")
            .beside(305e3, Better::Higher)
            .goal(300e3, Better::Higher)
            .details(format!(
                "logged, random keys, into a new catalog for 1 s, median of 3; {}; the paper: 16 nodes x 40 clients",
                latency(&times)
            )),
    );
    for clients in [1, 2, 4, 8] {
        let (rate, times) = stores(1, clients, 1)?;
        rows.push(
            Row::new("H4", format!("stores, 1 process, {clients} clients, depth 1"), rate, "stores/s")
                .details(latency(&times)),
        );
    }
    let store = place.store("located", 0)?;
    fill(store.catalog(), "located", KEY_COUNT)?;
    let mut rates = Vec::new();
    for _ in 0..REPEAT_COUNT {
        rates.push(workers::run(store.dir(), 2, &Work::Locate)?.iter().map(|p| p[0]).sum());
    }
    rows.push(
        Row::new("H4", "locates, 2 processes", median(rates), "locates/s")
            .beside(410e3, Better::Higher)
            .goal(1.3e6, Better::Higher)
            .details(format!("random among {KEY_COUNT} keys; the paper: 32 nodes")),
    );
    Ok(rows)
}

impl workers::Work for Work {
    const WORK_NAME: &'static str = "catalog";

    fn work(&self, store: &Path, worker: u64, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
        work(&Store::open(store)?, worker, self, ready)
    }
}

/// Returns the process's rate, followed by the time of each call.
fn work(store: &Store, worker: u64, work: &Work, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
    let catalog = store.catalog();
    match *work {
        Work::Store { clients, depth } => {
            ready()?;
            let begin = Instant::now();
            let done: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..clients)
                    .map(|client| scope.spawn(move || store_for_a_while(catalog, &format!("{worker}/{client}"), depth)))
                    .collect();
                threads.into_iter().filter_map(|t| t.join().ok()).collect()
            });
            let took = begin.elapsed().as_secs_f64();
            let times = done.into_iter().collect::<Result<Vec<_>>>()?.concat();
            let mut out = vec![(times.len() * depth) as f64 / took];
            out.extend(times.iter().step_by(times.len().div_ceil(20_000)));
            Ok(out)
        }
        Work::Locate => {
            ready()?;
            let (begin, mut count, mut state) = (Instant::now(), 0u64, worker + 1);
            while begin.elapsed() < RUN_DURATION {
                for _ in 0..256 {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let key = key("located", (state >> 33) % KEY_COUNT);
                    anyhow::ensure!(catalog.locate(&key, 0, 4096)?.is_some_and(|(_, extents)| extents.len() == 1));
                    count += 1;
                }
            }
            Ok(vec![count as f64 / begin.elapsed().as_secs_f64()])
        }
    }
}

fn store_for_a_while(catalog: &Catalog, prefix: &str, depth: usize) -> Result<Vec<f64>> {
    let (begin, mut next, mut times) = (Instant::now(), 0, Vec::new());
    while begin.elapsed() < RUN_DURATION {
        let changes: Vec<Change> =
            (next..next + depth as u64).map(|i| record(catalog, &key(prefix, scatter(i)))).collect::<Result<_>>()?;
        next += depth as u64;
        let start = Instant::now();
        if depth == 1 {
            changes.into_iter().try_for_each(|change| catalog.commit(change).map(|_| ()))?;
        } else {
            catalog.commit_many(&changes)?.into_iter().try_for_each(|result| result.map(|_| ()))?;
        }
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Stores this many keys.
pub fn fill(catalog: &Catalog, prefix: &str, keys: u64) -> Result<()> {
    for first in (0..keys).step_by(256) {
        let changes: Vec<Change> =
            (first..keys.min(first + 256)).map(|i| record(catalog, &key(prefix, i))).collect::<Result<_>>()?;
        catalog.commit_many(&changes)?.into_iter().try_for_each(|result| result.map(|_| ()))?;
    }
    Ok(())
}

/// Returns the first replica of an object's first extent.
pub fn first_replica(catalog: &Catalog, key: &[u8]) -> Result<Option<Replica>> {
    let located = catalog.locate(key, 0, 1)?;
    Ok(located.and_then(|(_, extents)| extents.first()?.replicas.first().copied()))
}

/// Scatters indices, so that the order of operations differs from the order of keys.
fn scatter(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24
}

fn key(prefix: &str, i: u64) -> Vec<u8> {
    format!("runs/{prefix}/{i:010}").into_bytes()
}

/// Makes the commit of a `put` of 4 KiB with one replica.
pub fn record(catalog: &Catalog, key: &[u8]) -> Result<Change> {
    change_of_put(catalog, key, |write| {
        let place = Stored { segment: 7, offset: write * 4200, length: 4200 };
        Replica { target: 0, place, stored: 4096, encoding: Encoding::NONE }
    })
}

/// Makes the commit of a `put` of 4 KiB with the replica of the write that has this number.
pub fn change_of_put(catalog: &Catalog, key: &[u8], replica: impl FnOnce(u64) -> Replica) -> Result<Change> {
    let (object, write) = (catalog.next_id()?, catalog.next_id()?);
    let extent = Extent {
        offset: 0,
        length: 4096,
        skip: 0,
        raw_len: 4096,
        write,
        replicas: [replica(write)].into_iter().collect(),
        source: None,
    };
    Ok(Change {
        expect: vec![Expect::Free(key.to_vec())],
        edits: vec![Edit::Put {
            key: key.to_vec(),
            object,
            length: 4096,
            want: 1,
            attributes: Attributes { mtime: 1, mode: 0o644, ..Attributes::default() },
            staged: false,
            extents: vec![NewExtent { extent, owed: Vec::new() }],
        }],
    })
}
