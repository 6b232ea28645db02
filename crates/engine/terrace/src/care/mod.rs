//! Keeping the store right: syncing, scrubbing, repairing, and making the catalog anew.

mod durable;
mod lost;
mod names;
mod rebuild;
mod recover;
mod restart;
mod salvage;
mod scrub;
mod snapshot;
mod survey;
mod sweep;

pub(crate) use recover::recover;
pub(crate) use survey::{Survey, holds_files};
