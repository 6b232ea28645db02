//! Keeping the store right: syncing, scrubbing, repairing, and making the catalog anew.

mod durable;
mod rebuild;
mod recover;
mod salvage;
mod scrub;
mod snapshot;

pub(crate) use recover::recover;
