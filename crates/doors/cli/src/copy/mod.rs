//! Copies between files and the store.

mod adopt;
mod check;
mod get;
mod out_folder;
mod put;
mod restore;
mod special;
mod tree;

pub use check::{check, same_bytes};
pub use get::{cat, get};
pub use out_folder::OutFolder;
pub use put::{adopt, put};
pub use restore::{NotRestored, has_mode_and_time};
pub use special::{write_directory, write_link};
pub use tree::{Changes, Item, Tree};

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
