//! [`Job`]: the description of a simulation, and its errors.

use thiserror::Error;

use crate::cluster::{Cluster, ClusterError};
use crate::room::Knows;
use crate::work::Phase;

/// Why a simulation failed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Error {
    /// The cluster is not valid.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Not even one replica of a block fits.
    #[error(
        "process {process} finds no room for one replica of a block in step {step}, after {stored} bytes were stored; \
         give the last tier no capacity or a larger one, or fewer replicas"
    )]
    NoRoom {
        /// The process, counted from 0.
        process: usize,
        /// The step, counted from 0.
        step: usize,
        /// The bytes that all processes have stored so far.
        stored: u64,
    },
}

/// The description of a simulation.
pub struct Job<'a, W> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// The data to write.
    pub work: &'a W,
    /// The phases.
    pub phases: &'a [Phase],
    /// The number of objects that a process works on at a time.
    pub under_way: usize,
    /// The processes' knowledge about each other's writes.
    pub knows: Knows,
}
