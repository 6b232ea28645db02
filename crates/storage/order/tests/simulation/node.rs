//! A node: its catalog, and the appends of its present incarnation.

use std::path::{Path, PathBuf};

use terrace_catalog::Catalog;
use terrace_catalog::log::Log as LocalLog;
use terrace_order::Proposer;

/// The store's number.
pub const STORE_ID: u64 = 7;

/// The number of the step that begins a session. Changes have the numbers from 1 on.
pub const BEGIN_NUMBER: u64 = 0;
/// The number of the step that ends it.
pub const END_NUMBER: u64 = u64::MAX;

/// Whose step it is.
#[derive(Clone, Copy)]
pub struct Whose {
    pub client: usize,
    pub session: u64,
    pub number: u64,
}

pub struct Node {
    folder: PathBuf,
    times_made: u64,
    pub catalog: Option<Catalog>,
    pub proposer: Option<Proposer<Whose>>,
    /// Steps that are in the log, and not yet carried out here.
    pub decided: Vec<(u64, Whose)>,
}

impl Node {
    pub fn new(folder: &Path) -> Node {
        Node { folder: folder.into(), times_made: 0, catalog: None, proposer: None, decided: Vec::new() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(self.times_made.to_string())
    }

    /// Opens the catalog as the last process left it.
    pub fn start(&mut self) {
        let log = LocalLog::open(&self.path().join("log"), STORE_ID).unwrap();
        self.catalog = Some(Catalog::open(&self.path().join("catalog"), log).unwrap());
    }

    /// Makes a new catalog, from a snapshot if there is one.
    pub fn start_again(&mut self, snapshot: Option<&Path>) {
        self.kill();
        self.times_made += 1;
        self.start();
        if let Some(snapshot) = snapshot {
            assert!(self.catalog().load_snapshot(snapshot).unwrap());
        }
    }

    /// Ends the process. What was committed to the catalog stays.
    pub fn kill(&mut self) {
        (self.catalog, self.proposer) = (None, None);
        self.decided.clear();
    }

    pub fn is_up(&self) -> bool {
        self.catalog.is_some()
    }

    pub fn catalog(&self) -> &Catalog {
        self.catalog.as_ref().unwrap()
    }

    pub fn slot(&self) -> u64 {
        self.catalog().followed().unwrap().slot
    }
}
