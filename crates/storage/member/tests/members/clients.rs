//! Clients that ask their node over its socket, and go on when it is started again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_catalog::{SharedLog, Verdict};
use terrace_format::{Change, Edit, Expect};
use terrace_member::{Client, ClientServer, Member, MemberError, OwnTarget, SnapshotFolder};
use terrace_testkit::{Random, wait_until};

use crate::nodes::{CALL_PATIENCE, Flaky, NODE_NAMES, Node, STORE_ID, put, start};

const CLIENTS_PER_NODE: u64 = 2;
const COUNTS_PER_CLIENT: u64 = 40;

fn count_on(object: &terrace_catalog::Object) -> Change {
    Change {
        expect: vec![Expect::Generation(b"counter".to_vec(), object.generation)],
        edits: vec![Edit::SetLength { key: b"counter".to_vec(), length: object.length + 1, mtime: 0 }],
    }
}

/// Starts a node again, which its clients notice as a broken connection.
fn restart(node: &mut Node, folder: &Path, server: ClientServer, at: usize) -> ClientServer {
    drop(server);
    let order = Box::new(Flaky { log: node.log.clone(), random: Mutex::new(Random::new(77)), lost_one_in: 20 });
    let targets = vec![OwnTarget { target: at as u16, persistent: true, doubtful: false }];
    let snapshots = SnapshotFolder::new(&folder.join("snapshots")).unwrap();
    let member = Member::start(order, node.catalog.clone(), NODE_NAMES[at], snapshots).unwrap();
    member.serve(targets).unwrap();
    node.member = Arc::new(member);
    ClientServer::start(node.member.clone(), &folder.join(NODE_NAMES[at])).unwrap()
}

#[test]
fn clients_go_on_when_their_node_is_started_again_and_each_change_happens_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = start(folder.path(), 21, 20);
    let serve = |(at, node): (usize, &Node)| {
        ClientServer::start(node.member.clone(), &folder.path().join(NODE_NAMES[at])).unwrap()
    };
    let mut servers: Vec<ClientServer> = nodes.iter().enumerate().map(serve).collect();
    let catalogs: Vec<_> = nodes.iter().map(|node| node.catalog.clone()).collect();
    let connect = |at: usize| Client::connect(&folder.path().join(NODE_NAMES[at]), STORE_ID, CALL_PATIENCE).unwrap();
    assert!(matches!(connect(0).carry_out(&[&put(b"counter", 1)]).unwrap()[..], [Verdict::Done(_)]));
    let (counted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = CLIENTS_PER_NODE * NODE_NAMES.len() as u64;
    thread::scope(|scope| {
        for client in 0..all {
            let at = client as usize % NODE_NAMES.len();
            let (catalog, connect, counted) = (catalogs[at].clone(), &connect, &counted);
            scope.spawn(move || {
                let own = connect(at);
                let mut done = 0;
                while done < COUNTS_PER_CLIENT {
                    own.catch_up().unwrap();
                    let object = catalog.object(b"counter").unwrap().unwrap();
                    match own.carry_out(&[&count_on(&object)]).unwrap()[..] {
                        [Verdict::Done(_)] => {
                            done += 1;
                            counted.fetch_add(1, Ordering::SeqCst);
                        }
                        [Verdict::Conflict] => {}
                        ref verdicts => unreachable!("{verdicts:?}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut random = Random::new(5);
            let mut restarts = 0;
            while !is_over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(random.below(300)));
                let at = random.below(3) as usize;
                let server = servers.remove(at);
                let again = restart(&mut nodes[at], folder.path(), server, at);
                servers.insert(at, again);
                restarts += 1;
            }
            println!("{restarts} restarts");
        });
        wait_until("all have counted", || counted.load(Ordering::SeqCst) == all * COUNTS_PER_CLIENT);
        is_over.store(true, Ordering::SeqCst);
    });
    for (at, catalog) in catalogs.iter().enumerate() {
        connect(at).catch_up().unwrap();
        assert_eq!(catalog.object(b"counter").unwrap().unwrap().length, all * COUNTS_PER_CLIENT);
    }
}

#[test]
fn a_batch_longer_than_a_record_of_verdicts_is_carried_out_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start(folder.path(), 31, 1000);
    let dir = folder.path().join(NODE_NAMES[0]);
    let _server = ClientServer::start(nodes[0].member.clone(), &dir).unwrap();
    let client = Client::connect(&dir, STORE_ID, CALL_PATIENCE).unwrap();
    let chain: Vec<Change> = (0..200u64)
        .map(|number| {
            let expect = if number == 0 {
                Expect::Absent(b"k0".to_vec())
            } else {
                Expect::Exists(format!("k{}", number - 1).into())
            };
            Change { expect: vec![expect], ..put(format!("k{number}").as_bytes(), number + 1) }
        })
        .collect();
    let verdicts = client.carry_out(&chain.iter().collect::<Vec<_>>()).unwrap();
    assert!(
        verdicts.len() == 200 && verdicts.iter().all(|verdict| matches!(verdict, Verdict::Done(_))),
        "{verdicts:?}"
    );
    assert!(nodes[0].catalog.object(b"k199").unwrap().is_some());
    // One change takes several records.
    let all = (0..60_000u64).flat_map(|number| put(format!("folder/{number}").as_bytes(), 1000 + number).edits);
    let large = Change { expect: vec![Expect::Absent(b"folder/0".to_vec())], edits: all.collect() };
    assert!(postcard::to_stdvec(&large).unwrap().len() > 1 << 20);
    assert!(matches!(client.carry_out(&[&large]).unwrap()[..], [Verdict::Done(_)]));
    assert!(matches!(client.carry_out(&[&large]).unwrap()[..], [Verdict::Conflict]), "it is there");
    nodes[1].member.catch_up(CALL_PATIENCE).unwrap();
    assert!(nodes[1].catalog.object(b"folder/59999").unwrap().is_some());
    let (first, second) = (client.claim_numbers(100).unwrap(), client.claim_numbers(1).unwrap());
    assert_eq!(second, first + 100);
    // Another node's numbers are others.
    let dir = folder.path().join(NODE_NAMES[1]);
    let _other_server = ClientServer::start(nodes[1].member.clone(), &dir).unwrap();
    let other = Client::connect(&dir, STORE_ID, CALL_PATIENCE).unwrap().claim_numbers(1000).unwrap();
    assert!(other + 1000 <= first || other > second, "{other} {first}");
}

#[test]
fn a_client_of_another_store_or_without_a_node_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start(folder.path(), 41, 1000);
    let dir = folder.path().join(NODE_NAMES[0]);
    let short = Duration::from_millis(50);
    let connect = |dir: &Path, patience| Client::connect(dir, STORE_ID, patience).unwrap();
    let nobody = Client::connect(&dir, STORE_ID, short).err().unwrap();
    assert!(matches!(&nobody, MemberError::NoNode { path, .. } if path.starts_with(&dir)), "{nobody}");
    let server = ClientServer::start(nodes[0].member.clone(), &dir).unwrap();
    let other = Client::connect(&dir, STORE_ID + 1, short).err().unwrap();
    assert!(matches!(&other, MemberError::Refused { reason } if reason.contains("--dir")), "{other}");
    let (hasty, client) = (connect(&dir, short), connect(&dir, CALL_PATIENCE));
    drop(server);
    let lost = hasty.carry_out(&[&put(b"k", 1)]).unwrap_err();
    assert!(matches!(lost, MemberError::NoNode { .. }), "{lost}");
    let _again = {
        let member = nodes[1].member.clone();
        ClientServer::start(member, &dir).unwrap()
    };
    let refused = client.carry_out(&[&put(&vec![b'k'; 20 << 20], 1)]).unwrap_err();
    assert!(matches!(refused, MemberError::TooLarge(_)), "{refused}");
    assert!(matches!(client.carry_out(&[&put(b"k", 1)]).unwrap()[..], [Verdict::Done(_)]), "it goes on");
}
