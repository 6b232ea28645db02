//! A store's files and its datasets' views as one tree, for mounts and for servers of any protocol.
//!
//! [`Tree`] assigns numbers to its entries. A file keeps its number, even if it is renamed, until callers have forgotten the number as often as
//! they looked it up. Numbers are never reused for other files. Views are below `.views/DATASET/`.

mod attributes;
mod error;
mod listed;
mod listing;
mod names;
mod nodes;
mod open;
mod views;

pub use error::{Error, Result};
pub use listed::Listed;
pub use nodes::ROOT_NODE;
pub use open::Open;

use rustix_futex_sync::RwLock;
use terrace::Files;
use terrace::files::Stat;

use nodes::Nodes;
use views::Views;

/// A store's files and views. Usable by many threads at once.
pub struct Tree {
    files: Files,
    views: Views,
    /// Write-locked while names change, read-locked while a path is in use, so that a path stays valid.
    nodes: RwLock<Nodes>,
}

/// An entry of the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number.
    pub number: u64,
    /// Its attributes.
    pub stat: Stat,
}

impl Tree {
    /// Creates the tree of a store's files.
    pub fn new(files: &Files) -> Tree {
        Tree { files: files.clone(), views: Views::new(files), nodes: RwLock::default() }
    }

    /// The store's files.
    pub fn files(&self) -> &Files {
        &self.files
    }
}

/// Whether a number is that of a view or of a directory of views.
pub fn is_view(number: u64) -> bool {
    views::is_view(number)
}
