//! The recipes of the guide, in a Slurm that runs here: jobs that end well, fail, are cancelled, reach their limit, or are requeued.

#![allow(clippy::unwrap_used, clippy::panic)]

#[cfg(feature = "cluster")]
mod cluster;
mod machine;
mod results;
