//! A store that several nodes share, all on this machine: figures N1 to N6, each beside what bounds it.
//!
//! Nodes and the members of etcd are real processes, connected by loopback. etcd syncs what it writes to disk; the nodes' targets are in
//! memory.

mod bandwidth;
mod bare;
mod bytes;
mod calls;
mod faults;
mod latency;
mod link;
mod nodes;
mod particles;
mod rates;
mod visible;

use std::io;
use std::path::Path;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use terrace::Store;
use terrace_testkit::EtcdCluster;

use crate::place::Place;
use crate::row::Row;
use crate::workers;

/// The work of one process on the machine of a node.
#[derive(Clone, Serialize, Deserialize)]
pub enum NodeWork {
    /// Changes of the catalog.
    Commit(rates::Work),
    /// Puts or gets of large objects.
    Transfer(bandwidth::Work),
    /// The steps of a simulation.
    Simulate(particles::Work),
}

impl workers::Work for NodeWork {
    const WORK_NAME: &'static str = "cluster";

    fn work(&self, store: &Path, worker: u64, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>> {
        work(&Store::open(store)?, worker, self, ready)
    }
}

/// Returns the figures of one process.
fn work(store: &Store, worker: u64, work: &NodeWork, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>> {
    match work {
        NodeWork::Commit(work) => rates::work(store, worker, work, ready),
        NodeWork::Transfer(work) => bandwidth::work(store, worker, work, ready),
        NodeWork::Simulate(work) => particles::work(store, worker, work, ready),
    }
}

type MeasureFigure = fn(&mut EtcdCluster) -> Result<Vec<Row>>;

const CLUSTER_FIGURES: [(&str, MeasureFigure); 7] = [
    ("N1, the time of a put", latency::run),
    ("N1, edits a second", rates::run),
    ("N2", visible::run),
    ("N3", bandwidth::run),
    ("N4", faults::run),
    ("N5", bytes::run),
    ("N6", particles::run),
];

pub fn run() -> Result<Vec<Row>> {
    if !cfg!(feature = "cluster") {
        eprintln!("skipped: this program was built without the feature `cluster`; `make bench` builds one that has it");
        return Ok(Vec::new());
    }
    let place = Place::new()?;
    let mut etcd = match EtcdCluster::start_synced(place.disk()) {
        Ok(etcd) => etcd,
        Err(missing) => {
            eprintln!("skipped: {missing}");
            return Ok(Vec::new());
        }
    };
    let mut rows = Vec::new();
    for (name, measure) in CLUSTER_FIGURES {
        match measure(&mut etcd) {
            Ok(measured) => rows.extend(measured),
            // A figure that fails does not keep the others from being measured.
            Err(error) => eprintln!("{name}: {error:#}"),
        }
    }
    ensure!(!rows.is_empty(), "no figure was measured");
    Ok(rows)
}
