//! A node: a thread that appends, a thread that follows, and the notes of both.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_catalog::Catalog;
use terrace_catalog::log::Log as LocalLog;
use terrace_format::{Attributes, Change, Edit, Step};
use terrace_order::{Etcd, EtcdOptions, Fate, Order, OrderError, Proposer, Records};
use terrace_testkit::Random;

pub const STORE_ID: u64 = 7;

/// A change, by its session and its number in it.
pub type Whose = (u64, u64);

pub fn options(servers: &[String], name: &str) -> EtcdOptions {
    EtcdOptions::new(servers.to_vec(), STORE_ID, name)
}

pub fn open_catalog(folder: &Path) -> Catalog {
    let log = LocalLog::open(&folder.join("log"), STORE_ID).unwrap();
    Catalog::open(&folder.join("catalog"), log).unwrap()
}

/// A change that puts a key of its own.
pub fn change((session, number): Whose) -> Step {
    let edit = Edit::Put {
        key: format!("{session:x}/{number}").into_bytes(),
        object: (session << 20) | number,
        length: 0,
        want: 1,
        attributes: Attributes::default(),
        staged: false,
        extents: Vec::new(),
    };
    Step::Change { session, number, change: Change::from(edit) }
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The signs between the threads of all nodes.
pub struct Signs {
    /// Nothing new is appended.
    pub stop: AtomicBool,
    /// The test has failed.
    pub fail: AtomicBool,
    /// The number of records that were appended.
    pub appended: AtomicU64,
    /// The slot of the last record, once nothing is appended.
    pub end: AtomicU64,
}

impl Signs {
    /// Ends the thread if the test has failed. Otherwise it would wait for servers that are gone.
    fn check_failed(&self) {
        assert!(!self.fail.load(Ordering::SeqCst), "the test has failed");
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// The fates of the steps that a node appended.
#[derive(Default)]
pub struct Told {
    pub fates: Vec<(Whose, Fate)>,
    pub incarnations: Vec<u64>,
    pub unanswered: u64,
}

/// Appends changes until it is told to stop and each has a fate.
pub fn append(order: &Etcd, node: u64, seed: u64, signs: &Signs) -> Told {
    let (mut random, mut told, mut sessions) = (Random::new(seed), Told::default(), 0);
    while !signs.is_stopped() {
        let incarnation = match order.join(told.incarnations.last().copied()) {
            Ok(incarnation) => incarnation,
            Err(OrderError::NoAnswer { .. }) => {
                signs.check_failed();
                told.unanswered += 1;
                continue;
            }
            // Another process has it, or an attempt without an answer does, until its lease ends.
            Err(OrderError::Taken { .. }) => continue,
            Err(failed) => panic!("{failed}"),
        };
        told.incarnations.push(incarnation);
        sessions += 1;
        let (session, mut number) = ((node << 16) | sessions, 0);
        let mut proposer = Proposer::new(STORE_ID, incarnation);
        proposer.propose((session, 0), Step::Begin { session }).unwrap();
        while !proposer.is_fenced() {
            if !signs.is_stopped() {
                for _ in 0..1 + random.below(4) {
                    number += 1;
                    proposer.propose((session, number), change((session, number))).unwrap();
                }
            }
            // The last record may be under way when the node is told to stop.
            let Some(append) = proposer.append(now()).cloned() else { break };
            match order.append(&append) {
                Ok(answer) => {
                    told.fates.extend(proposer.answer(append.number, answer));
                    signs.appended.fetch_add(1, Ordering::SeqCst);
                }
                // The same one again.
                Err(OrderError::NoAnswer { .. }) => {
                    signs.check_failed();
                    told.unanswered += 1;
                }
                Err(failed) => panic!("{failed}"),
            }
        }
    }
    told
}

/// Follows the log until it is known where it ends. Returns the records.
pub fn follow(order: &Etcd, catalog: &Catalog, signs: &Signs, followed: &AtomicU64) -> Vec<Arc<[u8]>> {
    let mut all = Vec::new();
    loop {
        let slot = all.len() as u64;
        followed.store(slot, Ordering::SeqCst);
        signs.check_failed();
        if slot == signs.end.load(Ordering::SeqCst) {
            return all;
        }
        match order.read(slot, 64) {
            Ok(Records::Next(records)) if records.is_empty() => match order.wait(slot, Duration::from_millis(200)) {
                Ok(()) | Err(OrderError::NoAnswer { .. }) => {}
                Err(failed) => panic!("{failed}"),
            },
            Ok(Records::Next(records)) => {
                catalog.follow(slot + 1, &records).unwrap();
                all.extend(records);
            }
            Ok(Records::Trimmed) => panic!("the log is trimmed beyond {slot}"),
            Err(OrderError::NoAnswer { .. }) => {}
            Err(failed) => panic!("{failed}"),
        }
    }
}
