//! Three members of one log, whose answers are lost and whose fences go, and clients that count.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, Verdict};
use terrace_format::{Attributes, Change, Edit, Expect};
use terrace_member::{Member, MemberError, OwnTarget, Session, SnapshotFolder};
use terrace_order::{Answer, Append, ModelOrder, OfferedSnapshot, Order, OrderError, Records};
use terrace_testkit::{Random, wait_until};

const STORE_ID: u64 = 7;
const NODE_NAMES: [&str; 3] = ["a", "b", "c"];
const CALL_PATIENCE: Duration = Duration::from_secs(60);
const COUNTS_PER_CLIENT: u64 = 60;

/// A log that loses answers, before or after it has done what was asked.
struct Flaky {
    log: Arc<ModelOrder>,
    random: Mutex<Random>,
    /// One call in this many has no answer.
    lost_one_in: u64,
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
}

struct Node {
    log: Arc<ModelOrder>,
    catalog: Arc<Catalog>,
    member: Member,
}

fn start(folder: &Path, seed: u64, lost_one_in: u64) -> Vec<Node> {
    let start = |(at, log): (usize, ModelOrder)| {
        let (log, name, random) = (Arc::new(log), NODE_NAMES[at], Mutex::new(Random::new(seed + at as u64)));
        let local = Log::open(&folder.join(name).join("log"), STORE_ID).unwrap();
        let catalog = Arc::new(Catalog::open(&folder.join(name).join("catalog"), local).unwrap());
        let order = Box::new(Flaky { log: log.clone(), random, lost_one_in });
        let targets = vec![OwnTarget { target: at as u16, persistent: true, doubtful: false }];
        let snapshots = SnapshotFolder::new(&folder.join("snapshots")).unwrap();
        let member = Member::start(order, catalog.clone(), name, targets, snapshots, None).unwrap();
        Node { log, catalog, member }
    };
    ModelOrder::for_nodes(&NODE_NAMES).into_iter().enumerate().map(start).collect()
}

fn put(key: &[u8], object: u64) -> Change {
    let (attributes, extents) = (Attributes::default(), Vec::new());
    let edit = Edit::Put { key: key.to_vec(), object, length: 0, want: 1, attributes, staged: false, extents };
    Change { expect: vec![Expect::Absent(key.to_vec())], edits: vec![edit] }
}

/// Asks until the outcome is known.
fn decide(session: &mut Session, change: &Change, patience: Duration) -> Verdict {
    let mut outcome = session.change(change, patience);
    loop {
        match outcome {
            Err(MemberError::Unknown { .. }) => outcome = session.ask_again(change, patience),
            outcome => return outcome.unwrap(),
        }
    }
}

/// Adds one to the length of `counter`, as often as it succeeds. Returns the number of refusals.
fn count(node: &Node, seed: u64, counted: &AtomicU64) -> u64 {
    let mut random = Random::new(seed);
    let mut session = node.member.begin(CALL_PATIENCE).unwrap();
    let (mut done, mut refused) = (0, 0);
    while done < COUNTS_PER_CLIENT {
        // So short that some outcomes are not known at first.
        let patience = if random.once_in(3) { Duration::from_millis(1) } else { CALL_PATIENCE };
        let Some(object) = node.catalog.object(b"counter").unwrap() else { continue };
        let length = object.length + 1;
        let change = Change {
            expect: vec![Expect::Generation(b"counter".to_vec(), object.generation)],
            edits: vec![Edit::SetLength { key: b"counter".to_vec(), length, mtime: 0 }],
        };
        match decide(&mut session, &change, patience) {
            Verdict::Done(_) => {
                // This node's catalog has it.
                assert!(node.catalog.object(b"counter").unwrap().unwrap().length >= length);
                counted.fetch_max(length, Ordering::SeqCst);
                done += 1;
            }
            Verdict::Conflict => refused += 1,
            verdict => unreachable!("{verdict:?}"),
        }
    }
    refused
}

#[test]
fn changes_are_carried_out_once_and_seen_by_all_who_ask_later() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start(folder.path(), 1, 6);
    let mut first = nodes[0].member.begin(CALL_PATIENCE).unwrap();
    assert!(matches!(decide(&mut first, &put(b"counter", 1), CALL_PATIENCE), Verdict::Done(_)));
    let (counted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let clients = 2 * NODE_NAMES.len() as u64;
    thread::scope(|scope| {
        let counting: Vec<_> = (0..clients)
            .map(|client| {
                let (node, counted) = (&nodes[client as usize % NODE_NAMES.len()], &counted);
                scope.spawn(move || count(node, 100 + client, counted))
            })
            .collect();
        // Fences go, now and then.
        scope.spawn(|| {
            let mut random = Random::new(9);
            while !is_over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(random.below(60)));
                nodes[random.below(3) as usize].log.expel();
            }
        });
        // What any client was told before is there for each client that asks on another node.
        scope.spawn(|| {
            for at in (0..NODE_NAMES.len()).cycle() {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                let told = counted.load(Ordering::SeqCst);
                nodes[at].member.catch_up(CALL_PATIENCE).unwrap();
                assert!(nodes[at].catalog.object(b"counter").unwrap().unwrap().length >= told);
            }
        });
        let refused: u64 = counting.into_iter().map(|client| client.join().unwrap()).sum();
        is_over.store(true, Ordering::SeqCst);
        println!(
            "{} counted, {refused} refused, {} records",
            clients * COUNTS_PER_CLIENT,
            nodes[0].log.head().unwrap()
        );
    });
    for node in &nodes {
        node.member.catch_up(CALL_PATIENCE).unwrap();
        let counter = node.catalog.object(b"counter").unwrap().unwrap();
        assert_eq!(counter.length, clients * COUNTS_PER_CLIENT, "each change once");
    }
}

#[test]
fn the_floor_rises_with_what_all_nodes_have_and_fenced_nodes_do_not_hold_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = start(folder.path(), 5, 1000);
    let mut session = nodes[0].member.begin(CALL_PATIENCE).unwrap();
    for number in 0..5 {
        assert!(matches!(
            decide(&mut session, &put(format!("k{number}").as_bytes(), number + 1), CALL_PATIENCE),
            Verdict::Done(_)
        ));
    }
    let raise = |nodes: &[Node]| {
        for (target, node) in nodes.iter().enumerate() {
            node.member.catch_up(CALL_PATIENCE).unwrap();
            let sequence = node.catalog.tail().unwrap().sequence;
            let _ = node.member.report(Vec::new());
            let _ = node.member.note_synced(target as u16, sequence);
            let _ = node.member.keep();
        }
        nodes[0].catalog.floor().unwrap()
    };
    wait_until("the floor rises", || raise(&nodes) >= 5);
    // A node goes; its target holds the floor until it is back, and it does not vote any more.
    drop(nodes.pop());
    wait_until("it has left", || {
        raise(&nodes);
        nodes[0].catalog.members().unwrap().len() == 2
    });
}

#[test]
fn a_member_that_cannot_go_on_says_so_to_its_clients() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start(folder.path(), 3, 1000);
    let mut session = nodes[0].member.begin(CALL_PATIENCE).unwrap();
    assert!(matches!(decide(&mut session, &put(b"k", 1), CALL_PATIENCE), Verdict::Done(_)));
    // Another program has written to the log.
    let incarnation = nodes[1].log.join(nodes[1].member.incarnation().map(|(incarnation, _)| incarnation)).unwrap();
    nodes[1].log.append(&Append { incarnation, number: 0, record: b"foreign".as_slice().into() }).unwrap();
    let error = session.change(&put(b"l", 2), CALL_PATIENCE).unwrap_err();
    assert!(matches!(&error, MemberError::Halted { reason } if reason.contains("damaged")), "{error}");
    assert!(matches!(nodes[2].member.catch_up(CALL_PATIENCE), Err(MemberError::Halted { .. })));
}

#[test]
fn a_node_that_is_behind_the_trimmed_log_loads_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = start(folder.path(), 11, 1000);
    let late = nodes.pop().unwrap();
    let (log, catalog) = (late.log.clone(), late.catalog.clone());
    wait_until("it has joined", || late.member.incarnation().is_some());
    let (last, _) = late.member.incarnation().unwrap();
    drop(late.member);
    catalog.lease((1, 2), 3, 4).unwrap();
    let mut session = nodes[0].member.begin(CALL_PATIENCE).unwrap();
    for round in 0..3 {
        for number in 0..20 {
            let change = put(format!("k{round}/{number}").as_bytes(), round * 100 + number + 1);
            assert!(matches!(decide(&mut session, &change, CALL_PATIENCE), Verdict::Done(_)));
        }
        nodes[0].member.offer_snapshot().unwrap();
        wait_until("somebody keeps", || nodes.iter().any(|node| node.member.keep().unwrap_or(false)));
    }
    assert_eq!(log.read(1, 10), Ok(Records::Trimmed));
    let order = Box::new(Flaky { log, random: Mutex::new(Random::new(4)), lost_one_in: 1000 });
    let snapshots = SnapshotFolder::new(&folder.path().join("snapshots")).unwrap();
    let member = Member::start(order, catalog.clone(), "c", Vec::new(), snapshots, Some(last)).unwrap();
    member.catch_up(CALL_PATIENCE).unwrap();
    assert!(catalog.object(b"k0/0").unwrap().is_some() && catalog.object(b"k2/19").unwrap().is_some());
    assert_eq!(catalog.leases().unwrap(), [(1, 2)], "the node's own");
    let mut own = member.begin(CALL_PATIENCE).unwrap();
    assert!(matches!(decide(&mut own, &put(b"own", 900), CALL_PATIENCE), Verdict::Done(_)));
    nodes[0].member.catch_up(CALL_PATIENCE).unwrap();
    assert!(nodes[0].catalog.object(b"own").unwrap().is_some());
    assert_eq!(std::fs::read_dir(folder.path().join("snapshots")).unwrap().count(), 1, "old ones are removed");
}
