//! N1: edits a second of one, two and four nodes, beside what one node applies alone.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use terrace::Store;
use terrace::catalog::{Catalog, Verdict};
use terrace::log::Log;
use terrace_format::{Proposal, Step};
use terrace_system::clock::unix_seconds;
use terrace_testkit::EtcdCluster;

use super::NodeWork;
use super::latency::put;
use super::nodes::{SharedStore, StoreShape};
use crate::claims::h4;
use crate::place::{Place, random_bytes};
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::{Times, median};
use crate::workers;

const NODE_COUNTS: [usize; 3] = [1, 2, 4];
/// The number of clients of all nodes together.
const CLIENT_COUNT: usize = 8;
/// The changes of one request, the most that a node accepts.
const REQUEST_CHANGES: u64 = 64;
const MIN_EDITS_PER_SECOND: f64 = 40e3;
/// More nodes have no goal, because they share the cores of one machine.
const MAX_GOAL_NODES: usize = 2;
/// The edits of a record when one node applies alone: as many as all clients have under way.
const RECORD_EDITS: u64 = CLIENT_COUNT as u64 * REQUEST_CHANGES;
/// The records that a node applies in one transaction, if as many wait.
const RECORDS_AT_ONCE: usize = 16;
const APPLIED_STORE_NUMBER: u64 = 1;
const APPLIED_SESSION: u64 = 1;

/// For how long a worker commits changes.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Work {
    duration: Duration,
}

pub fn run(etcd: &mut EtcdCluster) -> Result<Vec<Row>> {
    let (duration, repeats) = Size::get().of((2, 1), (5, 3), (10, 5));
    let work = NodeWork::Commit(Work { duration: Duration::from_secs(duration) });
    let mut measured = NODE_COUNTS.map(|_| (Vec::new(), Vec::new()));
    let mut alone = Vec::new();
    for _ in 0..repeats {
        for (nodes, (rates, times)) in NODE_COUNTS.into_iter().zip(&mut measured) {
            let shared = SharedStore::start(etcd, StoreShape::new(nodes, 1))?;
            let clients: Vec<_> = (0..CLIENT_COUNT).map(|client| shared.dir(client % nodes)).collect();
            let printed = workers::run_on(&clients, &work)?;
            rates.push(printed.iter().map(|p| p[0]).sum::<f64>());
            times.extend(printed.iter().flat_map(|p| &p[1..]).copied());
        }
        alone.push(applied_alone()?);
    }
    let alone = median(alone);
    let row = |(nodes, (rates, times)): (usize, (Vec<f64>, Vec<f64>))| {
        let times = Times::new(times);
        let (noun, what) = (if nodes == 1 { "node" } else { "nodes" }, "beside what one node applies alone");
        let row = Row::new("cluster N1", format!("edits a second, {nodes} {noun}, {what}"), median(rates), "edits/s")
            .beside(alone, Better::Higher)
            .details(format!(
                "{CLIENT_COUNT} processes in all, each with {REQUEST_CHANGES} puts of a key under way; a request: p50 {:.0} ms, p99 {:.0} ms; {duration} s, middle of {repeats}",
                times.median() * 1e3,
                times.quantile(0.99) * 1e3
            ));
        if nodes <= MAX_GOAL_NODES { row.goal(MIN_EDITS_PER_SECOND, Better::Higher) } else { row }
    };
    Ok(NODE_COUNTS.into_iter().zip(measured).map(row).collect())
}

/// Commits changes of 4 KiB objects, which all name one frame. Returns the process's rate, followed by the time of each request.
pub fn work(store: &Store, worker: u64, work: &Work, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>> {
    let catalog = store.catalog();
    let first = format!("edits/{worker}");
    put(store, &first, &random_bytes(4 << 10, worker))?;
    let replica = h4::first_replica(catalog, first.as_bytes())?.context("an object without a replica")?;
    ready()?;
    let (begin, mut times) = (Instant::now(), Vec::new());
    let mut next = 0u64;
    while begin.elapsed() < work.duration {
        let key = |i: u64| format!("edits/{worker}-{:016x}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let changes: Vec<_> = (next..next + REQUEST_CHANGES)
            .map(|i| h4::change_of_put(catalog, key(i).as_bytes(), |_| replica))
            .collect::<Result<_>>()?;
        next += REQUEST_CHANGES;
        let start = Instant::now();
        for committed in catalog.commit_many(&changes)? {
            committed?;
        }
        times.push(start.elapsed().as_secs_f64());
    }
    let rate = next as f64 / begin.elapsed().as_secs_f64();
    Ok([vec![rate], times].concat())
}

/// Returns how many edits a second a node applies that does nothing else. It applies records from memory.
fn applied_alone() -> Result<f64> {
    let place = Place::new()?;
    let log = Log::open(&place.disk().join("log"), APPLIED_STORE_NUMBER)?;
    let catalog = Catalog::open(&place.disk().join("catalog"), log)?;
    let first = vec![Step::Join { node: "a".into() }, Step::Begin { session: APPLIED_SESSION }];
    let (count, mut number) = (Size::get().of(200, 600, 1200), 0);
    let mut record = |steps| {
        let proposal = Proposal { incarnation: 1, number, time: unix_seconds(), steps };
        number += 1;
        proposal.encode(APPLIED_STORE_NUMBER)
    };
    let mut records = vec![record(first)];
    for at in 0..count {
        let change = |i: u64| -> Result<Step> {
            let i = at * RECORD_EDITS + i;
            let key = format!("edits/{:016x}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let change = h4::record(&catalog, key.as_bytes())?;
            Ok(Step::Change { session: APPLIED_SESSION, number: i + 1, change })
        };
        records.push(record((0..RECORD_EDITS).map(change).collect::<Result<_>>()?));
    }
    let begin = Instant::now();
    for (first, together) in (1..).step_by(RECORDS_AT_ONCE).zip(records.chunks(RECORDS_AT_ONCE)) {
        let verdicts = catalog.follow(first, together)?;
        let is_done = |verdict: &Verdict| matches!(verdict, Verdict::Done(_));
        ensure!(verdicts.iter().flatten().skip(2).all(is_done), "an edit was refused");
    }
    Ok((count * RECORD_EDITS) as f64 / begin.elapsed().as_secs_f64())
}
