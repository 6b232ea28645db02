//! Three nodes that append and follow at the same time, while something happens to the servers; and the laws.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use terrace_catalog::Catalog;
use terrace_format::{Proposal, Step};
use terrace_order::{Etcd, EtcdOptions, Fate, Order, OrderError};
use terrace_testkit::wait_until;

use crate::node::{self, STORE_ID, Signs, Told, Whose};

const NODE_COUNT: usize = 3;

/// A call of a node ends without an answer after this time, so that the node sees some of those.
const CALL_PATIENCE: Duration = Duration::from_millis(700);

/// The nodes while they run.
pub struct Nodes<'a> {
    pub orders: &'a [Etcd],
    signs: &'a Signs,
    followed: &'a [AtomicU64],
}

impl Nodes<'_> {
    /// Waits until the nodes have appended this many records more.
    pub fn append_more(&self, count: u64) {
        let before = self.signs.appended.load(Ordering::SeqCst);
        wait_until("the nodes append", || self.signs.appended.load(Ordering::SeqCst) >= before + count);
    }

    /// The slot that every node has followed the log to.
    pub fn followed_by_all(&self) -> u64 {
        self.followed.iter().map(|slot| slot.load(Ordering::SeqCst)).min().unwrap()
    }
}

/// The answer to a call that is tried until there is one.
pub fn answered<T>(mut call: impl FnMut() -> Result<T, OrderError>) -> T {
    loop {
        match call() {
            Err(OrderError::NoAnswer { .. }) => {}
            answer => return answer.unwrap(),
        }
    }
}

/// Runs three nodes for as long as `meanwhile` takes, and checks the laws.
pub fn run(servers: &[String], seed: u64, meanwhile: impl FnOnce(&Nodes<'_>)) {
    let folder = tempfile::tempdir().unwrap();
    Etcd::make(&node::options(servers, "maker")).unwrap();
    let names = (0..NODE_COUNT).map(|at| format!("node{at}"));
    let orders: Vec<Etcd> = names
        .clone()
        .map(|name| Etcd::open(EtcdOptions { patience: CALL_PATIENCE, ..node::options(servers, &name) }).unwrap())
        .collect();
    let catalogs: Vec<Catalog> = names.map(|name| node::open_catalog(&folder.path().join(name))).collect();
    let signs = Signs {
        stop: AtomicBool::new(false),
        fail: AtomicBool::new(false),
        appended: AtomicU64::new(0),
        end: AtomicU64::new(u64::MAX),
    };
    let followed: Vec<AtomicU64> = (0..NODE_COUNT).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        let signs = &signs;
        let appenders: Vec<_> = orders
            .iter()
            .enumerate()
            .map(|(at, order)| scope.spawn(move || node::append(order, at as u64, seed + at as u64, signs)))
            .collect();
        let followers: Vec<_> = orders
            .iter()
            .zip(catalogs.iter().zip(&followed))
            .map(|(order, (catalog, followed))| scope.spawn(move || node::follow(order, catalog, signs, followed)))
            .collect();
        // A thread that fails must not let the others run for ever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            meanwhile(&Nodes { orders: &orders, signs, followed: &followed });
        }));
        signs.fail.store(outcome.is_err(), Ordering::SeqCst);
        signs.stop.store(true, Ordering::SeqCst);
        let told: Vec<_> = appenders.into_iter().map(thread::ScopedJoinHandle::join).collect();
        if outcome.is_ok() {
            signs.end.store(answered(|| orders[0].head()), Ordering::SeqCst);
        }
        let logs: Vec<_> = followers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        outcome.unwrap();
        let told: Vec<Told> = told.into_iter().map(Result::unwrap).collect();
        let logs: Vec<_> = logs.into_iter().map(Result::unwrap).collect();
        check_logs(&logs, &catalogs);
        check_fates(&logs[0], &told);
    });
}

/// All nodes have the same records, and the same index.
fn check_logs(logs: &[Vec<Arc<[u8]>>], catalogs: &[Catalog]) {
    for (log, catalog) in logs.iter().zip(catalogs) {
        assert!(*log == logs[0], "two nodes have read different logs");
        let followed = catalog.followed().unwrap();
        assert_eq!(followed, catalogs[0].followed().unwrap());
        assert_eq!(followed.slot, log.len() as u64);
        assert!(catalog.dump().unwrap() == catalogs[0].dump().unwrap(), "the indexes of two nodes differ");
    }
}

/// Each step is in the log once and at its place, or not at all, as the node was told.
fn check_fates(log: &[Arc<[u8]>], told: &[Told]) {
    let proposals: Vec<_> = log.iter().map(|record| Proposal::decode(record, STORE_ID).unwrap()).collect();
    let mut seen = HashSet::new();
    for step in proposals.iter().flat_map(|proposal| &proposal.steps) {
        assert!(seen.insert(whose(step)), "{step:?} is in the log twice");
    }
    let mut refused = 0;
    for (mine, fate) in told.iter().flat_map(|told| &told.fates) {
        match fate {
            Fate::At { slot, step } => assert_eq!(whose(&proposals[*slot as usize - 1].steps[*step]), *mine),
            Fate::BeforeHead => assert!(seen.contains(mine)),
            Fate::NotCarriedOut => {
                refused += 1;
                assert!(!seen.contains(mine), "{mine:?} was refused, and is in the log");
            }
        }
    }
    let fates: usize = told.iter().map(|told| told.fates.len()).sum();
    assert_eq!(fates - refused, seen.len(), "a step in the log has no fate");
    let incarnations: usize = told.iter().map(|told| told.incarnations.len()).sum();
    let unanswered: u64 = told.iter().map(|told| told.unanswered).sum();
    println!(
        "{} records, {} steps, {refused} refused; {incarnations} incarnations; {unanswered} calls without an answer",
        log.len(),
        seen.len()
    );
}

fn whose(step: &Step) -> Whose {
    match step {
        Step::Begin { session } => (*session, 0),
        Step::End { session } => (*session, u64::MAX),
        Step::Change { session, number, .. } => (*session, *number),
        step => panic!("nobody has proposed {step:?}"),
    }
}
