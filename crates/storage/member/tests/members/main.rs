//! Three members of one log, whose answers are lost and whose fences go, and clients that count.

#![allow(clippy::unwrap_used)]

mod clients;
mod nodes;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nodes::{CALL_PATIENCE, Flaky, NODE_NAMES, Node, decide, put, start};
use rustix_futex_sync::Mutex;
use terrace_catalog::Verdict;
use terrace_format::{Change, Edit, Expect};
use terrace_member::{Member, MemberError, SnapshotFolder};
use terrace_order::{Append, Order, Records};
use terrace_testkit::{Random, wait_until};

const COUNTS_PER_CLIENT: u64 = 60;

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
            let _ = node.member.keep(Duration::ZERO);
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
    drop(late.member);
    catalog.lease((1, 2), 3, 4).unwrap();
    let mut session = nodes[0].member.begin(CALL_PATIENCE).unwrap();
    for round in 0..3 {
        for number in 0..20 {
            let change = put(format!("k{round}/{number}").as_bytes(), round * 100 + number + 1);
            assert!(matches!(decide(&mut session, &change, CALL_PATIENCE), Verdict::Done(_)));
        }
        nodes[0].member.offer_snapshot().unwrap();
        wait_until("somebody keeps", || nodes.iter().any(|node| node.member.keep(Duration::ZERO).unwrap_or(false)));
    }
    assert_eq!(log.read(1, 10), Ok(Records::Trimmed));
    let order = Box::new(Flaky { log, random: Mutex::new(Random::new(4)), lost_one_in: 1000 });
    let snapshots = SnapshotFolder::new(&folder.path().join("snapshots")).unwrap();
    let member = Member::start(order, catalog.clone(), "c", snapshots).unwrap();
    member.catch_up(CALL_PATIENCE).unwrap();
    assert!(catalog.object(b"k0/0").unwrap().is_some() && catalog.object(b"k2/19").unwrap().is_some());
    assert_eq!(catalog.leases().unwrap(), [(1, 2)], "the node's own");
    let mut own = member.begin(CALL_PATIENCE).unwrap();
    assert!(matches!(decide(&mut own, &put(b"own", 900), CALL_PATIENCE), Verdict::Done(_)));
    nodes[0].member.catch_up(CALL_PATIENCE).unwrap();
    assert!(nodes[0].catalog.object(b"own").unwrap().is_some());
    assert_eq!(std::fs::read_dir(folder.path().join("snapshots")).unwrap().count(), 1, "old ones are removed");
}
