//! Members of one log in memory, whose answers are lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, Verdict};
use terrace_format::{Attributes, Change, Edit, Expect};
use terrace_member::{Member, MemberError, OwnTarget, Session, SnapshotFolder};
use terrace_order::{Answer, Append, LogIdentity, ModelOrder, OfferedSnapshot, Order, OrderError, Records};
use terrace_testkit::Random;

pub const STORE_ID: u64 = 7;
pub const NODE_NAMES: [&str; 3] = ["a", "b", "c"];
pub const CALL_PATIENCE: Duration = Duration::from_secs(60);

/// A log that loses answers, before or after it has done what was asked.
pub struct Flaky {
    pub log: Arc<ModelOrder>,
    pub random: Mutex<Random>,
    /// One call in this many has no answer.
    pub lost_one_in: u64,
}

impl Flaky {
    fn answered<T>(&self, call: impl FnOnce() -> Result<T, OrderError>) -> Result<T, OrderError> {
        let lost = || Err(OrderError::NoAnswer { reason: "lost".into() });
        match self.random.lock().below(2 * self.lost_one_in) {
            0 => lost(),
            1 => call().and_then(|_| lost()),
            _ => call(),
        }
    }
}

impl Order for Flaky {
    fn join(&self, last: Option<u64>) -> Result<u64, OrderError> {
        self.answered(|| match self.log.join(last) {
            // The fence of an attempt whose answer was lost runs out.
            Err(OrderError::Taken { .. }) => {
                self.log.expel();
                self.log.join(last)
            }
            joined => joined,
        })
    }
    fn append(&self, append: &Append) -> Result<Answer, OrderError> {
        self.answered(|| self.log.append(append))
    }
    fn head(&self) -> Result<u64, OrderError> {
        self.answered(|| self.log.head())
    }
    fn read(&self, after: u64, most: usize) -> Result<Records, OrderError> {
        self.answered(|| self.log.read(after, most))
    }
    fn wait(&self, after: u64, timeout: Duration) -> Result<(), OrderError> {
        self.log.wait(after, timeout)
    }
    fn trim(&self, to: u64) -> Result<(), OrderError> {
        self.log.trim(to)
    }
    fn offer_snapshot(&self, snapshot: &OfferedSnapshot) -> Result<(), OrderError> {
        self.log.offer_snapshot(snapshot)
    }
    fn snapshots(&self) -> Result<BTreeMap<String, OfferedSnapshot>, OrderError> {
        self.log.snapshots()
    }
    fn fences(&self) -> Result<BTreeMap<String, u64>, OrderError> {
        self.log.fences()
    }
    fn keep(&self, incarnation: u64) -> Result<bool, OrderError> {
        self.log.keep(incarnation)
    }
    fn leave(&self, incarnation: u64) -> Result<(), OrderError> {
        self.log.leave(incarnation)
    }
    fn identity(&self) -> LogIdentity {
        self.log.identity()
    }
}

pub struct Node {
    pub log: Arc<ModelOrder>,
    pub catalog: Arc<Catalog>,
    pub member: Arc<Member>,
}

pub fn start(folder: &Path, seed: u64, lost_one_in: u64) -> Vec<Node> {
    let start = |(at, log): (usize, ModelOrder)| {
        let (log, name, random) = (Arc::new(log), NODE_NAMES[at], Mutex::new(Random::new(seed + at as u64)));
        let local = Log::open(&folder.join(name).join("log"), STORE_ID).unwrap();
        let catalog = Arc::new(Catalog::open(&folder.join(name).join("catalog"), local).unwrap());
        let order = Box::new(Flaky { log: log.clone(), random, lost_one_in });
        let targets = vec![OwnTarget { target: at as u16, persistent: true, doubtful: false }];
        let snapshots = SnapshotFolder::new(&folder.join("snapshots")).unwrap();
        let member = Arc::new(Member::start(order, catalog.clone(), name, snapshots).unwrap());
        member.serve(targets).unwrap();
        Node { log, catalog, member }
    };
    ModelOrder::for_nodes(&NODE_NAMES).into_iter().enumerate().map(start).collect()
}

pub fn put(key: &[u8], object: u64) -> Change {
    let (attributes, extents) = (Attributes::default(), Vec::new());
    let edit = Edit::Put { key: key.to_vec(), object, length: 0, want: 1, attributes, staged: false, extents };
    Change { expect: vec![Expect::Absent(key.to_vec())], edits: vec![edit] }
}

/// Asks until the outcome is known.
pub fn decide(session: &mut Session, change: &Change, patience: Duration) -> Verdict {
    let mut outcome = session.change(change, patience);
    loop {
        match outcome {
            Err(MemberError::Unknown { .. }) => outcome = session.ask_again(change, patience),
            outcome => return outcome.unwrap(),
        }
    }
}
