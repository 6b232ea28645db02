//! Nodes in processes of their own, on a log in etcd. The nodes and etcd's members are killed while clients count.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use terrace_catalog::Catalog;
use terrace_catalog::log::Log;
use terrace_format::{Attributes, Change, Edit, Expect};
use terrace_member::{Client, ClientServer, Member, SnapshotFolder};
use terrace_order::{Etcd, EtcdOptions};
use terrace_testkit::{EtcdCluster, Random, skip, wait_until};

const STORE_ID: u64 = 9;
const NODE_NAMES: [&str; 3] = ["a", "b", "c"];
const CALL_PATIENCE: Duration = Duration::from_secs(100);
/// Tells a process of this test that it is a node.
const NODE_VARIABLE: &str = "TERRACE_TEST_NODE";
const SERVERS_VARIABLE: &str = "TERRACE_TEST_SERVERS";
/// The pause between two reports of a node.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn log(folder: &Path) -> Log {
    Log::open(&folder.join("log"), STORE_ID).unwrap()
}

/// Runs in the process of each node, until it is killed.
#[test]
fn node() {
    let Ok(folder) = std::env::var(NODE_VARIABLE) else { return };
    let (folder, servers) = (Path::new(&folder), std::env::var(SERVERS_VARIABLE).unwrap());
    let name = folder.file_name().unwrap().to_str().unwrap();
    let servers = servers.split(',').map(str::to_owned).collect();
    let order = Box::new(Etcd::open(EtcdOptions::new(servers, STORE_ID, name)).unwrap());
    let catalog = Arc::new(Catalog::open(&folder.join("catalog"), log(folder)).unwrap());
    let snapshots = SnapshotFolder::new(&folder.with_file_name("snapshots")).unwrap();
    let member = Arc::new(Member::start(order, catalog, name, snapshots).unwrap());
    let _server = ClientServer::start(member.clone(), folder).unwrap();
    for round in 1u64.. {
        thread::sleep(REPORT_INTERVAL);
        // Errors of the log go away, or the clients' waits fail.
        let _ = member.report(Vec::new()).and_then(|()| member.keep(Duration::ZERO));
        if round % 10 == 0 {
            let _ = member.offer_snapshot();
        }
    }
}

/// A node's process. It is killed when this is dropped.
struct Node(Child);

impl Node {
    fn start(folder: &Path, servers: &str) -> Node {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "node", "--nocapture"]).stdin(Stdio::null()).stdout(Stdio::null());
        Node(command.env(NODE_VARIABLE, folder).env(SERVERS_VARIABLE, servers).spawn().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

fn put(key: &str, object: u64) -> Change {
    let (attributes, extents) = (Attributes::default(), Vec::new());
    let edit = Edit::Put { key: key.into(), object, length: 0, want: 1, attributes, staged: false, extents };
    Change { expect: vec![Expect::Absent(key.into())], edits: vec![edit] }
}

/// Adds one to the length of `counter`, and puts a key that tells of it, until all counts are done.
fn count(catalog: &Catalog, counts: u64, counted: &AtomicU64) {
    while counted.load(Ordering::SeqCst) < counts {
        let object = catalog.object(b"counter").unwrap().unwrap();
        let key = format!("counts/{}", object.length);
        let mut change = put(&key, catalog.next_id().unwrap());
        change.expect.push(Expect::Generation(b"counter".to_vec(), object.generation));
        change.edits.push(Edit::SetLength { key: b"counter".to_vec(), length: object.length + 1, mtime: 0 });
        match catalog.commit(change) {
            Ok(_) => {
                assert!(catalog.object(key.as_bytes()).unwrap().is_some(), "it reads what it wrote");
                counted.fetch_add(1, Ordering::SeqCst);
            }
            Err(terrace_catalog::Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// `TERRACE_COUNTS` is the number of changes.
#[test]
fn killed_nodes_and_servers_lose_no_change_and_carry_out_none_twice() {
    let mut etcd = match EtcdCluster::start(&[]) {
        Ok(etcd) => etcd,
        Err(missing) => return skip("nodes on a log in etcd", &missing),
    };
    let (seed, counts) = (number("TERRACE_SEED", 1), number("TERRACE_COUNTS", 300));
    let servers: Vec<String> = etcd.ports().iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    Etcd::make(&EtcdOptions::new(servers.clone(), STORE_ID, "maker")).unwrap();
    let servers = servers.join(",");
    let root = tempfile::tempdir().unwrap();
    let folders = NODE_NAMES.map(|name| root.path().join(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let mut nodes: Vec<Node> = folders.iter().map(|folder| Node::start(folder, &servers)).collect();
    let catalogs = folders.each_ref().map(|folder| {
        let mut client = None;
        wait_until("a node answers", || {
            client = Client::connect(folder, STORE_ID, CALL_PATIENCE).ok();
            client.is_some()
        });
        let catalog = Catalog::open(&folder.join("catalog"), log(folder)).unwrap();
        catalog.share(Box::new(client.unwrap()));
        catalog.catch_up().unwrap();
        catalog
    });
    catalogs[0].commit(put("counter", 1)).unwrap();
    catalogs.iter().for_each(|catalog| catalog.catch_up().unwrap());
    let (counted, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut kills = [0, 0];
    thread::scope(|scope| {
        // Two threads of each process share its session.
        let counting: Vec<_> =
            catalogs.iter().chain(&catalogs).map(|catalog| scope.spawn(|| count(catalog, counts, &counted))).collect();
        let mut random = Random::new(seed);
        while counted.load(Ordering::SeqCst) < counts && !counting.iter().any(|thread| thread.is_finished()) {
            thread::sleep(Duration::from_millis(random.below(800)));
            let at = random.below(NODE_NAMES.len() as u64) as usize;
            if random.once_in(4) {
                let at = random.below(EtcdCluster::MEMBER_COUNT as u64) as usize;
                etcd.kill(at);
                thread::sleep(Duration::from_millis(random.below(300)));
                etcd.start_again();
                kills[1] += 1;
            } else {
                nodes.remove(at);
                thread::sleep(Duration::from_millis(random.below(300)));
                nodes.insert(at, Node::start(&folders[at], &servers));
                kills[0] += 1;
            }
        }
        has_failed.store(counting.into_iter().any(|thread| thread.join().is_err()), Ordering::SeqCst);
    });
    assert!(!has_failed.into_inner());
    let counted = counted.into_inner();
    println!("seed {seed}: {counted} counts, {} kills of nodes and {} of etcd's members", kills[0], kills[1]);
    for catalog in &catalogs {
        catalog.catch_up().unwrap();
        assert_eq!(catalog.object(b"counter").unwrap().unwrap().length, counted);
        for count in 0..counted {
            assert!(catalog.object(format!("counts/{count}").as_bytes()).unwrap().is_some(), "count {count}");
        }
    }
}
