//! Keeping the store right: syncing, scrubbing, repairing, and making the catalog anew.

mod durable;
mod lost;
mod names;
mod rebuild;
mod recover;
mod salvage;
mod scrub;
mod snapshot;
mod sweep;

pub(crate) use recover::recover;
