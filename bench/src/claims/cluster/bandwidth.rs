//! N3: puts and gets of one, two and four nodes whose links are limited, beside the links' bandwidth.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use terrace::Store;
use terrace_testkit::EtcdCluster;

use super::NodeWork;
use super::latency::put;
use super::nodes::{SharedStore, StoreShape};
use crate::place::random_bytes;
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::median;
use crate::workers;

const NODE_COUNTS: [usize; 3] = [1, 2, 4];
/// All nodes together must leave this machine's processors time to spare.
const LINK_BYTES_PER_SECOND: f64 = 20e6;
const OBJECT_BYTES: usize = 1 << 20;
/// Threads of the process on each node: with fewer, a link would be idle at times, because targets are chosen by a hash.
const THREAD_COUNT: usize = 8;
const MIN_SHARE_OF_LINEAR: f64 = 0.9;
const TRANSFER_VERBS: [&str; 2] = ["put", "get"];

/// Puts objects for some time, or gets some that another process has put.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Work {
    duration: Duration,
    /// The number of processes and of objects of each of their threads, for gets.
    there: Option<(u64, u64)>,
}

pub fn run(etcd: &mut EtcdCluster) -> Result<Vec<Row>> {
    let (seconds, repeats) = Size::get().of((3, 1), (8, 3), (15, 5));
    let mut rates = NODE_COUNTS.map(|_| [Vec::new(), Vec::new()]);
    for _ in 0..repeats {
        for (nodes, rates) in NODE_COUNTS.into_iter().zip(&mut rates) {
            let measured = measure(etcd, nodes, Duration::from_secs(seconds))?;
            rates.iter_mut().zip(measured).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    let mut rows = Vec::new();
    for (direction, verb) in TRANSFER_VERBS.into_iter().enumerate() {
        let one = rates[0][direction].clone();
        for (nodes, rates) in NODE_COUNTS.into_iter().zip(&rates) {
            let (noun, rates) = (if nodes == 1 { "node" } else { "nodes" }, &rates[direction]);
            let details = format!(
                "objects of 1 MiB, one replica; a process with {THREAD_COUNT} threads on each node; a proxy in the benchmark limits the targets of each \
                 node to {:.0} MB/s each way; {seconds} s, middle of {repeats}",
                LINK_BYTES_PER_SECOND / 1e6
            );
            let links = nodes as f64 * LINK_BYTES_PER_SECOND / 1e6;
            let what = format!("{verb}, {nodes} {noun}, beside the nodes' links");
            let rate = median(rates.iter().copied());
            rows.push(Row::new("cluster N3", what, rate, "MB/s").beside(links, Better::Higher).details(details));
            if nodes > 1 {
                let share = median(rates.iter().zip(&one).map(|(rate, one)| rate / (one * nodes as f64)));
                let what = format!("{verb}, {nodes} {noun}: share of {nodes} times one node");
                rows.push(Row::new("cluster N3", what, share, "").goal(MIN_SHARE_OF_LINEAR, Better::Higher).details(
                    format!("{rate:.1} MB/s beside {nodes} times {:.1} MB/s, in one run", median(one.iter().copied())),
                ));
            }
        }
    }
    Ok(rows)
}

/// Returns the megabytes a second of puts, and of gets of what was put on another node.
fn measure(etcd: &EtcdCluster, nodes: usize, duration: Duration) -> Result<[f64; 2]> {
    let shape = StoreShape { bytes_per_second: Some(LINK_BYTES_PER_SECOND), ..StoreShape::new(nodes, 1) };
    let shared = SharedStore::start(etcd, shape)?;
    let dirs: Vec<_> = (0..nodes).map(|at| shared.dir(at)).collect();
    let transfer = |there| {
        let work = NodeWork::Transfer(Work { duration, there });
        workers::run_on(&dirs, &work)
    };
    let megabytes = |printed: &[Vec<f64>]| printed.iter().map(|p| p[0]).sum::<f64>() / 1e6;
    let puts = transfer(None)?;
    let fewest = puts.iter().map(|p| p[1]).fold(f64::INFINITY, f64::min);
    ensure!(fewest >= 1.0, "a thread has put nothing in {duration:?}");
    let gets = transfer(Some((nodes as u64, fewest as u64)))?;
    Ok([megabytes(&puts), megabytes(&gets)])
}

/// Returns the process's bytes a second, and the fewest objects of a thread.
pub fn work(store: &Store, worker: u64, work: &Work, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>> {
    let bytes = random_bytes(OBJECT_BYTES, worker + 1);
    ready()?;
    let begin = Instant::now();
    let transfer = |thread: usize| -> Result<u64> {
        let mut count = 0;
        while begin.elapsed() < work.duration {
            match work.there {
                None => put(store, &key(worker, thread, count), &bytes)?,
                // Those of the next node, and each once: a second read might find it in memory.
                Some((workers, objects)) if count < objects => {
                    let got = store.get(key((worker + 1) % workers, thread, count).as_bytes())?;
                    ensure!(got.len() == OBJECT_BYTES, "an object is too short");
                }
                Some(_) => break,
            }
            count += 1;
        }
        Ok(count)
    };
    let transfer = &transfer;
    let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREAD_COUNT).map(|thread| scope.spawn(move || transfer(thread))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let counts = counts.into_iter().collect::<Result<Vec<u64>>>()?;
    ensure!(counts.len() == THREAD_COUNT, "a thread has panicked");
    let total = counts.iter().sum::<u64>() as f64 * OBJECT_BYTES as f64;
    let fewest = counts.into_iter().min().unwrap_or(0);
    Ok(vec![total / begin.elapsed().as_secs_f64(), fewest as f64])
}

fn key(worker: u64, thread: usize, object: u64) -> String {
    format!("{worker}/{thread}/{object}")
}
