//! Copies between files and the store.

mod check;
mod get;
mod put;
mod restore;
mod tree;

pub use check::check;
pub use get::{cat, get};
pub use put::put;

use anyhow::Result;
use terrace::Store;

use crate::output::{count, note};

/// Reports, in one line, the replicas that reads found bad and that were replaced.
fn tell_repaired(store: &Store) -> Result<()> {
    match store.repair_suspects()? {
        0 => {}
        repaired => note(&format!("{} found and repaired", count(repaired, "damaged replica"))),
    }
    Ok(())
}
