//! Stores with more targets than one search of the planner considers, and with targets on other nodes.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::replicated;
use terrace::report::Location;
use terrace::{Config, PutOptions, Question, Store};
use terrace_remote::{Secret, ServedTarget, Server, ServerOptions};
use terrace_testkit::{noise, wait_until};

/// The nodes of the replicas of each extent.
fn nodes(location: &Location) -> Vec<Vec<String>> {
    let node = |replica: &terrace::report::ReplicaLocation| replica.node.clone().unwrap();
    location.extents.iter().map(|extent| extent.replicas.iter().map(node).collect()).collect()
}

/// 20 shelves of ten directories each: four in the first tier, six in the second one.
fn shelves(dir: &Path) -> String {
    let target = |shelf: usize, number: usize| {
        format!("{{ path = '{}/{shelf}-{number}', node = 'shelf-{shelf}' }}", dir.display())
    };
    let tier = |name: &str, numbers: std::ops::Range<usize>| {
        let targets: Vec<String> = (0..20).flat_map(|shelf| numbers.clone().map(move |at| target(shelf, at))).collect();
        format!(
            "[[tier]]\nname = '{name}'\nkind = 'directory'\ncapacity = '8MiB'\ntargets = [{}]\n",
            targets.join(", ")
        )
    };
    format!("[store]\nreplicas = {{ default = 3 }}\n{}{}", tier("fast", 0..4), tier("slow", 4..10))
}

#[test]
fn a_store_with_200_targets_uses_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::parse(&shelves(dir.path()), "test").unwrap();
    let store = Store::init(&dir.path().join("store"), &config).unwrap();
    let objects: Vec<(String, Vec<u8>)> = (0..60).map(|n| (format!("object {n}"), noise(200_000, n))).collect();
    for (key, bytes) in &objects {
        store.put_bytes(key.as_bytes(), bytes, &replicated()).unwrap();
    }
    let check = || {
        let mut used = BTreeSet::new();
        for (key, bytes) in &objects {
            assert_eq!(store.get(key.as_bytes()).unwrap(), *bytes, "{key}");
            let location = store.locate(key.as_bytes()).unwrap();
            for replicas in nodes(&location) {
                let distinct: BTreeSet<&String> = replicas.iter().collect();
                assert_eq!((replicas.len(), distinct.len()), (3, 3), "{key}: {replicas:?}");
            }
            let replicas = location.extents.into_iter().flat_map(|extent| extent.replicas);
            used.extend(replicas.map(|replica| (replica.tier, replica.target)));
        }
        used
    };
    let used = check();
    // Each object has replicas on three targets, and the emptiest ones are chosen.
    assert!(used.len() > 64, "{} targets are used", used.len());
    let status = store.status().unwrap();
    let sums: Vec<(&str, u64)> = status.tiers.iter().map(|tier| (tier.name.as_str(), tier.capacity)).collect();
    assert_eq!(sums, [("fast", 80 * (8 << 20)), ("slow", 120 * (8 << 20))]);
    let question = Question { key: b"new", block: &objects[0].1, options: &PutOptions::default(), what_if: &[] };
    let explained = store.explain(&question).unwrap();
    assert_eq!((explained.targets.len(), explained.explanation.domains), (200, 20));
    let chosen = explained.explanation.replicas.iter().flat_map(|replica| &replica.pieces);
    let nodes: BTreeSet<_> = chosen.map(|piece| &explained.targets[usize::from(piece.target)].2).collect();
    assert!(nodes.len() == 3 && !nodes.contains(&None), "{nodes:?}");
    store.drain("fast").unwrap();
    assert!(check().iter().all(|(tier, _)| tier == "slow"));
    store.close().unwrap();
}

/// A node with two targets, behind a wire.
struct Node {
    _server: Server,
    wire: Arc<Wire>,
    address: SocketAddr,
}

/// Forwards connections, and keeps each answer back for a while.
struct Wire {
    delay: Duration,
    /// Bytes of answers. Relaxed: a mere count.
    passed: AtomicU64,
}

impl Node {
    fn start(dir: &Path, name: &str, delay: Duration) -> Node {
        let target = |name: &str, path| ServedTarget { name: name.into(), path, capacity: u64::MAX };
        let server = Server::begin(ServerOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            secret: Secret::read(&dir.join("secret")).unwrap(),
            identity: None,
            targets: ["a", "b"].map(|target_name| target(target_name, dir.join(name).join(target_name))).into(),
            numbers: None,
            handler: None,
        });
        let server = server.unwrap();
        let wire = Arc::new(Wire { delay, passed: AtomicU64::new(0) });
        let address = wire.clone().start(server.address());
        Node { _server: server, wire, address }
    }
}

impl Wire {
    fn start(self: Arc<Wire>, to: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The threads end with the process, or with their connections.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(node) = TcpStream::connect(to) else { continue };
                let ends = (client.try_clone().unwrap(), node.try_clone().unwrap());
                let wire = self.clone();
                thread::spawn(move || pass(client, ends.1, |_| {}));
                thread::spawn(move || {
                    pass(node, ends.0, |length| {
                        thread::sleep(wire.delay);
                        wire.passed.fetch_add(length as u64, Ordering::Relaxed);
                    });
                });
            }
        });
        address
    }

    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, before: impl Fn(usize)) {
    // As long as any answer here, so that the delay counts once.
    let mut buffer = vec![0; 1 << 20];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        before(length);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both); // the other side may have ended first
    }
}

/// All targets are of one tier, so that only measurements tell how far away they are.
#[test]
fn replicas_lie_on_different_nodes_and_reads_and_writes_take_the_nearer_one() {
    const OBJECT_BYTES: usize = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    let mut file = fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(&secret).unwrap();
    file.write_all(b"correct-horse-battery-staple\n").unwrap();
    let near = Node::start(dir.path(), "near", Duration::ZERO);
    let far = Node::start(dir.path(), "far", Duration::from_millis(30));
    let target = |node: &str, address, name| format!("{{ path = 'http://{address}/{name}', node = '{node}' }}");
    let targets = [("near", near.address), ("far", far.address)]
        .map(|(node, address)| ["a", "b"].map(|name| target(node, address, name)))
        .concat();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n[[tier]]\nname = 'peers'\nkind = 'node'\ncapacity = '1GiB'\n\
         timeout = '60s'\noptions = {{ secret = '{}' }}\ntargets = [{}]\n",
        secret.display(),
        targets.join(", ")
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let objects: HashMap<String, Vec<u8>> = (0..12).map(|n| (format!("object {n}"), noise(OBJECT_BYTES, n))).collect();
    let mut targets = BTreeMap::<String, u32>::new();
    for (key, bytes) in &objects {
        store.put_bytes(key.as_bytes(), bytes, &replicated()).unwrap();
        let location = store.locate(key.as_bytes()).unwrap();
        for mut replicas in nodes(&location) {
            replicas.sort();
            assert_eq!(replicas, ["far", "near"], "{key}");
        }
        for replica in &location.extents[0].replicas {
            *targets.entry(replica.target.clone()).or_default() += 1;
        }
    }
    assert_eq!(targets.len(), 4, "both targets of each node are used: {targets:?}");
    wait_until("reads take the nearer node", || {
        let before = [&near, &far].map(|node| node.wire.passed());
        for (key, bytes) in &objects {
            assert_eq!(store.get(key.as_bytes()).unwrap(), *bytes, "{key}");
        }
        let [from_near, from_far] = [&near, &far].map(|node| node.wire.passed());
        from_near - before[0] > (objects.len() * OBJECT_BYTES) as u64 && from_far - before[1] < OBJECT_BYTES as u64
    });
    let mut written = 0;
    wait_until("writes of one replica take the nearer node", || {
        let key = format!("one {written}");
        written += 1;
        let one = PutOptions { replicas: Some(1), ..replicated() };
        store.put_bytes(key.as_bytes(), &noise(OBJECT_BYTES, 1000 + written), &one).unwrap();
        let location = store.locate(key.as_bytes()).unwrap();
        nodes(&location) == [["near"]]
    });
    store.close().unwrap();
}
