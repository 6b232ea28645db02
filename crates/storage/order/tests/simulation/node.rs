//! A node: its catalog, and the appends of its present incarnation.

use std::path::{Path, PathBuf};

use terrace_catalog::Catalog;
use terrace_catalog::log::Log as LocalLog;
use terrace_format::Replica;
use terrace_order::Proposer;

use crate::disk::Disk;

/// The store's number.
pub const STORE_ID: u64 = 7;

/// The number of the step that begins a session. Changes have the numbers from 1 on.
pub const BEGIN_NUMBER: u64 = 0;
/// The number of the step that ends it.
pub const END_NUMBER: u64 = u64::MAX;

/// The step of a client. Steps of a node itself have none.
#[derive(Clone, Copy)]
pub struct Whose {
    pub client: usize,
    pub session: u64,
    pub number: u64,
}

/// An object that a client reads.
pub struct Open {
    pub object: u64,
    pub generation: u64,
    /// The replicas of its extents.
    pub replicas: Vec<Replica>,
}

pub struct Node {
    folder: PathBuf,
    times_made: u64,
    pub catalog: Option<Catalog>,
    pub proposer: Option<Proposer<Option<Whose>>>,
    /// The last incarnation, in a file.
    pub last_incarnation: Option<u64>,
    /// Steps that are in the log, and not yet carried out here.
    pub decided: Vec<(u64, Whose)>,
    pub disk: Disk,
    /// Whether it has lost power since it last found its disk whole.
    pub lost_power: bool,
    /// The number of frames that this incarnation has written.
    pub written: u64,
    pub open: Vec<Open>,
    /// The session of the node's own changes, and the number of the last one.
    pub own: (u64, u64),
}

impl Node {
    pub fn new(folder: &Path) -> Node {
        Node {
            folder: folder.into(),
            times_made: 0,
            catalog: None,
            proposer: None,
            last_incarnation: None,
            decided: Vec::new(),
            disk: Disk::default(),
            lost_power: false,
            written: 0,
            open: Vec::new(),
            own: (0, 0),
        }
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
        self.open.clear();
    }

    pub fn is_up(&self) -> bool {
        self.catalog.is_some()
    }

    pub fn catalog(&self) -> &Catalog {
        self.catalog.as_ref().unwrap()
    }

    /// The short number of its incarnation, once its own index has it.
    pub fn short(&self) -> Option<u32> {
        let incarnation = self.proposer.as_ref()?.incarnation();
        self.catalog.as_ref()?.member(incarnation).unwrap().map(|member| member.short).filter(|short| *short > 0)
    }

    pub fn slot(&self) -> u64 {
        self.catalog().followed().unwrap().slot
    }
}
