//! [`Job`]: what is to be done, and why it may come to no end.

use thiserror::Error;

use crate::cluster::{Cluster, ClusterError};
use crate::room::Knows;
use crate::work::Phase;

/// Why a simulation came to no end.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Error {
    /// The cluster cannot be.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Not even one replica of a block has a place.
    #[error(
        "process {process} finds no room for one replica of a block in step {step}, after {stored} bytes were stored; \
         give the last tier no capacity or a larger one, or fewer replicas"
    )]
    NoRoom {
        /// Which process, counted from 0.
        process: usize,
        /// Which step, counted from 0.
        step: usize,
        /// Bytes stored so far, by all.
        stored: u64,
    },
}

/// What is to be done, and where.
pub struct Job<'a, W> {
    /// The machines.
    pub cluster: &'a Cluster,
    /// What is written.
    pub work: &'a W,
    /// What is done with it.
    pub phases: &'a [Phase],
    /// Objects that a process has under way at a time.
    pub under_way: usize,
    /// What processes know of each other's writes.
    pub knows: Knows,
}
