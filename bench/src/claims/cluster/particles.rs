//! N6: VPIC-IO on four nodes that share a store of their memory and a common tier, beside four stores on the common tier alone.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use terrace::{Config, Store};
use terrace_remote::{Secret, ServedTarget, Server, ServerOptions};
use terrace_testkit::EtcdCluster;

use super::NodeWork;
use super::latency::put;
use super::link::LimitedLink;
use super::nodes::{NODES_TIER, SharedStore, StoreShape};
use crate::evaluation::Data;
use crate::place::Place;
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::median;
use crate::workers;

const NODE_COUNT: usize = 4;
/// The bandwidth of the shared tier, for all nodes together.
const SHARED_BYTES_PER_SECOND: f64 = 50e6;
const STEP_BYTES: usize = 8 << 20;

/// Writes the particles of some steps, or reads those of another rank.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Work {
    steps: u64,
    /// The distance to the rank whose particles are read. None writes.
    rank_distance: Option<u64>,
}

pub fn run(etcd: &mut EtcdCluster) -> Result<Vec<Row>> {
    let (steps, repeats) = Size::get().of((2, 1), (5, 3), (10, 5));
    let mut times: [Vec<f64>; 5] = Default::default();
    for _ in 0..repeats {
        let measured = shared_times(etcd, steps)?.into_iter().chain(alone_times(steps)?);
        times.iter_mut().zip(measured).for_each(|(times, time)| times.push(time));
    }
    let bytes = NODE_COUNT as f64 * steps as f64 * STEP_BYTES as f64;
    let [written, read, moved, alone_written, alone_read] = times.map(median);
    let details = format!(
        "{NODE_COUNT} ranks, one process on each node; {steps} steps of {} MiB each; beside them, each rank has a store of its own whose only tier is \
         the shared one; {:.0} MB/s for all ranks together; {repeats} runs in turn",
        STEP_BYTES >> 20,
        SHARED_BYTES_PER_SECOND / 1e6
    );
    let row = |what: &str, ours: f64, theirs: f64, details: String| {
        Row::new("cluster N6", what, ours, "s").beside(theirs, Better::Lower).details(details)
    };
    Ok(vec![
        row(
            "VPIC-IO on four nodes, two replicas, beside each node alone on the shared tier",
            written,
            alone_written,
            {
                format!("{details}; then all moves to the shared tier in {moved:.1} s, {:.1} MB/s", bytes / moved / 1e6)
            },
        ),
        row(
            "BD-CATS-IO of another rank's particles, beside each node alone on the shared tier",
            read,
            alone_read,
            details,
        ),
    ])
}

/// Returns the seconds of writing, of reading and of draining the nodes' tier.
fn shared_times(etcd: &EtcdCluster, steps: u64) -> Result<[f64; 3]> {
    let shape = StoreShape { shared_tier: Some(SHARED_BYTES_PER_SECOND), ..StoreShape::new(NODE_COUNT, 2) };
    let shared = SharedStore::start(etcd, shape)?;
    let dirs: Vec<PathBuf> = (0..NODE_COUNT).map(|at| shared.dir(at)).collect();
    let written = slowest(&dirs, Work { steps, rank_distance: None })?;
    shared.open(0)?.sync()?;
    let read = slowest(&dirs, Work { steps, rank_distance: Some(1) })?;
    let begin = Instant::now();
    let store = shared.open(0)?;
    store.drain(NODES_TIER)?;
    store.sync()?;
    Ok([written, read, begin.elapsed().as_secs_f64()])
}

/// Returns the seconds of writing and of reading where each rank has a store of its own on the shared tier.
fn alone_times(steps: u64) -> Result<[f64; 2]> {
    let place = Place::new()?;
    let secret = place.disk().join("secret");
    let mut file = File::options().create_new(true).write(true).mode(0o600).open(&secret)?;
    writeln!(file, "a-secret-of-the-benchmark")?;
    let target = |rank: usize| {
        let (name, path) = (format!("rank{rank}"), place.ram().join(rank.to_string()));
        ServedTarget { name, path, capacity: u64::MAX }
    };
    let server = Server::begin(ServerOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        secret: Secret::read(&secret)?,
        identity: None,
        targets: (0..NODE_COUNT).map(target).collect(),
        numbers: None,
        handler: None,
    })?;
    let link = LimitedLink::start(server.address(), SHARED_BYTES_PER_SECOND)?;
    let mut dirs = Vec::new();
    for rank in 0..NODE_COUNT {
        let dir = place.disk().join(format!("store{rank}"));
        let text = format!(
            "[[tier]]\nname = 'shared'\nkind = 'node'\noptions = {{ secret = '{}' }}\ntargets = ['http://{}/rank{rank}']\n",
            secret.display(),
            link.address()
        );
        Store::init(&dir, &Config::parse(&text, "the benchmark")?)?.close()?;
        dirs.push(dir);
    }
    let written = slowest(&dirs, Work { steps, rank_distance: None })?;
    // A rank reads its own particles, because the stores do not know of each other.
    let read = slowest(&dirs, Work { steps, rank_distance: Some(0) })?;
    server.end();
    Ok([written, read])
}

fn slowest(dirs: &[PathBuf], work: Work) -> Result<f64> {
    let printed = workers::run_on(dirs, &NodeWork::Simulate(work))?;
    Ok(printed.iter().map(|times| times[0]).fold(0.0, f64::max))
}

/// Returns the seconds of this rank.
pub fn work(store: &Store, rank: u64, work: &Work, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>> {
    let from = work.rank_distance.map_or(rank, |distance| (rank + distance) % NODE_COUNT as u64);
    let steps = (0..work.steps).map(|step| Data::Made.objects(from, step, STEP_BYTES));
    let objects: Vec<(String, Vec<u8>)> = steps.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    ready()?;
    let begin = Instant::now();
    for (key, bytes) in &objects {
        match work.rank_distance {
            None => put(store, key, bytes)?,
            Some(_) => ensure!(store.get(key.as_bytes())? == *bytes, "{key} has other bytes"),
        }
    }
    Ok(vec![begin.elapsed().as_secs_f64()])
}
