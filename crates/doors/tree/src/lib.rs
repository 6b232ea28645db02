//! A store's files and its datasets' views as one tree: what mounts and servers show, whatever protocol they speak.
//!
//! [`Tree`] numbers what is in it. A number stays that of a file while the file is renamed, until it has been forgotten as often as it
//! was found; it is never given to another file. Views are below `.views/DATASET/`.

mod attributes;
mod error;
mod listing;
mod names;
mod nodes;
mod open;
mod views;

pub use error::{Error, Result};
pub use listing::Listed;
pub use nodes::ROOT;
pub use open::Open;

use rustix_futex_sync::RwLock;
use terrace::Files;
use terrace::files::Stat;

use nodes::Nodes;
use views::Views;

/// A store's files and views. Many threads may use it at once.
pub struct Tree {
    files: Files,
    views: Views,
    /// Written while names change, read while a path is used.
    nodes: RwLock<Nodes>,
}

/// Something in the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number.
    pub number: u64,
    /// What is known about it.
    pub stat: Stat,
}

impl Tree {
    /// The tree of a store's files.
    pub fn new(files: &Files) -> Tree {
        Tree { files: files.clone(), views: Views::new(files), nodes: RwLock::default() }
    }

    /// The files below.
    pub fn files(&self) -> &Files {
        &self.files
    }
}

/// Whether a number is that of a view, or of a directory of views.
pub fn is_view(number: u64) -> bool {
    views::is(number)
}
