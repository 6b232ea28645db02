//! Three nodes that share a store, in processes of their own: each reads what another one acknowledged, although nodes are killed.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use terrace::Ack;
use terrace_stream::{Request, Stream};
use terrace_testkit::disk::{DiskFormat, RecordedDisk};
use terrace_testkit::guide::Guide;
use terrace_testkit::{EtcdCluster, Random, Redis, skip, wait_until};

terrace_testkit::disk_server!();

const NODE_NAMES: [&str; 3] = ["a", "b", "c"];
const MAX_OBJECT_BYTES: u64 = 3 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// A node's process. It is killed when this is dropped.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

/// A store of three nodes below one folder.
struct Shared {
    folder: tempfile::TempDir,
    etcd: EtcdCluster,
    nodes: Vec<Option<Node>>,
    /// The address of its log.
    log: String,
}

impl Shared {
    /// Makes the store, and starts its nodes. None if the test must be skipped.
    fn start(test: &str) -> Option<Shared> {
        Shared::start_with(test, "", None)
    }

    /// Makes the store with more tiers below those of the nodes, and the target of the last node on a disk of its own.
    fn start_with(test: &str, more_tiers: &str, last_disk: Option<&Path>) -> Option<Shared> {
        let etcd = match EtcdCluster::start(&[]) {
            Ok(etcd) => etcd,
            Err(missing) => {
                skip(test, &missing);
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let mut shared = Shared { folder, etcd, nodes: NODE_NAMES.map(|_| None).into(), log: String::new() };
        let secret = shared.path("secret");
        fs::write(&secret, "the-secret-of-this-test").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let ports = free_ports();
        let targets = NODE_NAMES.iter().zip(&ports);
        let targets: String = targets
            .map(|(name, port)| format!("{{ path = \"http://127.0.0.1:{port}/disk\", node = \"{name}\" }},"))
            .collect();
        let config = format!(
            "[store]\nreplicas = {{ min = 1, max = 3, default = 2 }}\n[[tier]]\nname = 'disk'\nkind = 'node'\n\
             options = {{ secret = '{}' }}\ntargets = [{targets}]\n{more_tiers}",
            secret.display()
        );
        fs::write(shared.path("shared.toml"), config).unwrap();
        for (name, port) in NODE_NAMES.iter().zip(&ports) {
            let disk = shared.path(&format!("{name}-disk"));
            let disk = last_disk.filter(|_| *name == "c").map_or(disk, |last| last.join("target"));
            let text = format!(
                "listen = '127.0.0.1:{port}'\nsecret = '{}'\n[[target]]\nname = 'disk'\npath = '{}'\n",
                secret.display(),
                disk.display()
            );
            fs::write(shared.path(&format!("{name}-targets.toml")), text).unwrap();
        }
        let servers: Vec<String> = shared.etcd.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let log = format!("etcd://{}", servers.join(","));
        let (config, snapshots) = (shared.path("shared.toml"), shared.path("snapshots"));
        let mut init = shared.command(0, &["init", "--json", "--cluster", &log, "--name", "a"]);
        let made = init.arg("--config").arg(config).arg("--snapshots").arg(&snapshots).output().unwrap();
        let made: serde_json::Value = serde_json::from_str(&told(&made)).unwrap();
        let log = made["log"].as_str().unwrap();
        shared.log = log.to_owned();
        for (at, name) in NODE_NAMES.iter().enumerate() {
            let join = ["--join", log, "--name", name, "--snapshots", snapshots.to_str().unwrap()];
            shared.start_node(at, if at == 0 { &[] } else { &join });
        }
        for at in 0..NODE_NAMES.len() {
            shared.wait_for_node(at);
        }
        Some(shared)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command of a process on a node's machine.
    fn command(&self, at: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).env("TERRACE_STORE", self.path(NODE_NAMES[at])).stdin(Stdio::null());
        command
    }

    fn run(&self, at: usize, arguments: &[&str]) -> Output {
        self.command(at, arguments).output().unwrap()
    }

    fn start_node(&mut self, at: usize, more: &[&str]) {
        self.start_node_under(at, more, &[]);
    }

    /// Starts a node with these settings in its environment.
    fn start_node_under(&mut self, at: usize, more: &[&str], settings: &[(&str, &str)]) {
        let mut command = self.command(at, &["node", "--no-listen", "--targets"]);
        command
            .arg(self.path(&format!("{}-targets.toml", NODE_NAMES[at])))
            .args(more)
            .env("TERRACE_LOG", "info")
            .envs(settings.iter().copied());
        let log = fs::File::options().create(true).append(true).open(self.path("nodes.log")).unwrap();
        self.nodes[at] = Some(Node(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()));
    }

    /// Starts a node as after a boot of its machine, and waits until it knows what was lost. Other processes of its machine would be of
    /// this boot, so none may run.
    fn restart_after_loss_of_power(&mut self, at: usize) {
        let target = |shared: &Shared| shared.status_of(0, NODE_NAMES[at])["targets"][0].clone();
        let before = target(self)["incarnation"].as_u64().unwrap();
        self.start_node_under(at, &[], &[("TERRACE_BOOT_ID", "another")]);
        wait_until("the node knows what it has lost", || {
            let target = target(self);
            target["incarnation"].as_u64().is_some_and(|now| now > before) && target["doubtful"] == false
        });
    }

    /// Waits until the processes of a node's machine can use the store, and reach all targets.
    fn wait_for_node(&mut self, at: usize) {
        wait_until("a node serves", || {
            let ended = self.nodes[at].as_mut().and_then(|node| node.0.try_wait().unwrap());
            let said = || fs::read_to_string(self.path("nodes.log")).unwrap();
            assert!(ended.is_none(), "node {} has ended:\n{}", NODE_NAMES[at], said());
            let status = self.run(at, &["status", "--json"]);
            // The socket is there before the node's target is.
            status.status.success() && String::from_utf8_lossy(&status.stdout).contains("\"state\":\"ok\"")
        });
    }

    fn is_running(&self, at: usize) -> bool {
        self.nodes[at].is_some()
    }

    /// Begins to put an object on a node's machine.
    fn begin_put(&self, at: usize, key: &str, bytes: &[u8]) -> Child {
        let file = self.path(&format!("{}-to-put", NODE_NAMES[at]));
        fs::write(&file, bytes).unwrap();
        let mut put = self.command(at, &["put", "--ack", "replicated"]);
        put.arg(&file).arg(key).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Puts an object, and returns whether that was acknowledged.
    fn put(&self, at: usize, key: &str, bytes: &[u8]) -> bool {
        self.begin_put(at, key, bytes).wait().unwrap().success()
    }

    fn get(&self, at: usize, key: &str) -> Vec<u8> {
        let got = self.run(at, &["cat", key]);
        if !got.status.success() {
            println!("{}", String::from_utf8_lossy(&self.run(at, &["locate", key]).stdout));
            println!("{}", fs::read_to_string(self.path("nodes.log")).unwrap());
        }
        assert!(got.status.success(), "{key} on {}: {}", NODE_NAMES[at], String::from_utf8_lossy(&got.stderr));
        got.stdout
    }
}

impl Shared {
    /// Returns the words of `terrace cluster status` about a node.
    fn status_of(&self, at: usize, name: &str) -> serde_json::Value {
        let status = self.run(at, &["cluster", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        status["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned().unwrap_or_default()
    }
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn free_ports() -> Vec<u16> {
    let listeners: Vec<_> = NODE_NAMES.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

#[test]
fn what_one_node_acknowledged_is_there_on_the_others() {
    let Some(mut shared) = Shared::start("a store of three nodes") else { return };
    let bytes: Vec<u8> = Random::new(1).bytes(2_500_000);
    for round in 0..6 {
        let (writer, reader) = (round % 3, (round + 1) % 3);
        let key = format!("runs/{round}");
        assert!(shared.put(writer, &key, &bytes[round..]));
        assert!(shared.get(reader, &key) == bytes[round..], "the writer's call has returned");
    }
    // So it is for programs that have the store open.
    let stores = [0, 1].map(|at| terrace::Store::open(&shared.path(NODE_NAMES[at])).unwrap());
    for number in 0..40_usize {
        let (text, options) = (number.to_string(), terrace::PutOptions::default());
        stores[number % 2].put_bytes(b"number", text.as_bytes(), &options).unwrap();
        assert_eq!(stores[(number + 1) % 2].get(b"number").unwrap(), text.as_bytes());
    }
    stores[0].remove(b"number").unwrap();
    assert!(stores[1].stat(b"number").is_err());
    drop(stores);
    told(&shared.run(2, &["mv", "runs/0", "renamed"]));
    told(&shared.run(1, &["rm", "runs/1"]));
    let listed = told(&shared.run(0, &["ls"]));
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["renamed", "runs/2", "runs/3", "runs/4", "runs/5"]);
    // Each has two replicas on different nodes, and `locate` names these.
    let located: serde_json::Value =
        serde_json::from_str(&told(&shared.run(1, &["locate", "renamed", "--json"]))).unwrap();
    for extent in located["extents"].as_array().unwrap() {
        let nodes: Vec<&str> =
            extent["replicas"].as_array().unwrap().iter().filter_map(|r| r["node"].as_str()).collect();
        assert!(nodes.len() == 2 && nodes[0] != nodes[1], "{extent}");
    }
    // Another process with the name of a node is refused.
    let mut second = shared.command(1, &["node", "--no-listen", "--join", &shared.log, "--name", "a"]);
    second.env("TERRACE_STORE", shared.path("second-a")).env("TERRACE_TAKEN_MILLISECONDS", "1000");
    let refused = second.output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("node a has joined"), "{message}");
    // A command without a node is told what to do.
    shared.nodes[2] = None;
    let refused = shared.run(2, &["ls"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("terrace node"), "{message}");
    // What would harm the other nodes is refused, also where no node runs.
    for (at, arguments) in [
        (0, ["rebuild", "--salvage"].as_slice()),
        (0, &["prune", "--force"]),
        (2, &["destroy", "--force"]),
        (2, &["tiers", "renew", "disk"]),
        (0, &["drain", "disk"]),
    ] {
        let refused = shared.run(at, arguments);
        assert!(!refused.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&refused.stdout));
    }
    assert!(shared.get(0, "renamed") == bytes && shared.get(1, "renamed") == bytes);
    // The last node's target is empty when it comes back.
    fs::remove_dir_all(shared.path("c-disk")).unwrap();
    fs::remove_dir_all(shared.path("c")).unwrap();
    let (log, snapshots) = (shared.log.clone(), shared.path("snapshots"));
    shared.start_node(2, &["--join", &log, "--name", "c", "--snapshots", snapshots.to_str().unwrap()]);
    shared.wait_for_node(2);
    for at in 0..NODE_NAMES.len() {
        let put = shared.command(at, &["put", "--ack", "durable"]).arg(shared.path("a-to-put")).arg("again").output();
        told(&put.unwrap());
    }
    told(&shared.run(2, &["repair"]));
    assert!(shared.get(2, "runs/5") == bytes[5..]);
}

/// Each node writes to its own target first, and deals other replicas to the others. One that hangs holds up nobody for long.
#[test]
fn a_node_that_hangs_delays_the_others_little() {
    let Some(mut shared) = Shared::start("a node that hangs") else { return };
    let bytes = Random::new(3).bytes(300_000);
    let mut holders: BTreeMap<String, usize> = BTreeMap::new();
    for n in 0..24 {
        let key = format!("k{n}");
        assert!(shared.put(0, &key, &bytes[n..]));
        let located: serde_json::Value =
            serde_json::from_str(&told(&shared.run(0, &["locate", &key, "--json"]))).unwrap();
        for replica in located["extents"][0]["replicas"].as_array().unwrap() {
            *holders.entry(replica["node"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert!(holders["a"] == 24 && holders["b"] > 3 && holders["c"] > 3, "{holders:?}");
    told(&shared.command(2, &["put", "--replicas", "1"]).arg(shared.path("a-to-put")).arg("only").output().unwrap());
    let hung = rustix::process::Pid::from_child(&shared.nodes[2].as_ref().unwrap().0);
    rustix::process::kill_process(hung, rustix::process::Signal::STOP).unwrap();
    wait_until("the node counts as away", || shared.status_of(0, "c")["there"] == false);
    for n in 0..24 {
        assert!(shared.get(0, &format!("k{n}")) == bytes[n..] && shared.get(1, &format!("k{n}")) == bytes[n..]);
    }
    assert!(shared.put(1, "while it hangs", &bytes));
    let located = told(&shared.run(1, &["locate", "while it hangs", "--json"]));
    assert!(!located.contains("\"c\""), "{located}");
    // Nothing on it counts as bad or lost.
    let scrubbed = shared.run(0, &["scrub", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&scrubbed.stdout).unwrap();
    assert!(!scrubbed.status.success() && found["bad"] == 0 && found["lost"] == 0, "{found}");
    assert_eq!(found["away"].as_u64().unwrap() as usize, holders["c"] + 1, "{found}");
    let health = shared.run(0, &["health"]);
    assert!(!String::from_utf8_lossy(&health.stdout).contains("LOST"));
    rustix::process::kill_process(hung, rustix::process::Signal::CONT).unwrap();
    wait_until("the node is back", || shared.status_of(0, "c")["there"] == true);
    assert!(shared.get(2, "while it hangs") == bytes);
    told(&shared.run(1, &["scrub"]));
    // A put of many files waits once for a node that is gone.
    let folder = shared.path("many");
    fs::create_dir(&folder).unwrap();
    (0..60).for_each(|n| fs::write(folder.join(format!("{n}")), &bytes).unwrap());
    let mut put = shared.command(2, &["put"]).arg(&folder).arg("many/").stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    shared.nodes[2] = None;
    wait_until("it gives up", || put.try_wait().unwrap().is_some_and(|status| !status.success()));
}

/// A bucket, or a folder of a parallel file system, is one tier for all nodes: each writes blobs of its own, and all read and remove them.
#[test]
fn all_nodes_use_the_tier_of_a_service() {
    let Some(redis) = Redis::start() else { return };
    let pfs = tempfile::tempdir().unwrap();
    let tiers = format!(
        "[[tier]]\nname = 'pfs'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}/of-all']\n\
         [[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'redis'\noptions = {{ endpoint = '{}' }}\n",
        pfs.path().display(),
        redis.endpoint()
    );
    let Some(mut shared) = Shared::start_with("a tier of a service", &tiers, None) else { return };
    let contents: Vec<Vec<u8>> = (0..6).map(|n| Random::new(n).bytes(300_000 + n as usize)).collect();
    for (n, bytes) in contents.iter().enumerate() {
        let (at, key) = (n % 3, format!("k{n}"));
        assert!(shared.put(at, &key, bytes));
        told(&shared.run(at, &["stage", &key, "--tier", ["bucket", "pfs"][n / 3]]));
        told(&shared.run((n + 1) % 3, &["evict", &key, "--tier", "disk"]));
    }
    told(&shared.run(0, &["sync"]));
    told(&shared.run(1, &["scrub"]));
    for (key, tier) in [("k0", "bucket"), ("k3", "pfs")] {
        let located = told(&shared.run(2, &["locate", key, "--json"]));
        assert!(located.contains(tier) && !located.contains("\"disk\""), "{located}");
    }
    // No bytes are on these.
    shared.nodes[0] = None;
    shared.nodes[1] = None;
    for (n, bytes) in contents.iter().enumerate() {
        assert!(shared.get(2, &format!("k{n}")) == *bytes);
    }
}

/// Programs on two nodes append to one stream, and a third node runs it until it dies; then another one does. Each request arrives once.
#[test]
fn a_stream_of_several_nodes_is_delivered_once() {
    let Some(mut shared) = Shared::start("a stream of several nodes") else { return };
    const REQUEST_COUNT: u64 = 150;
    let out = shared.path("out");
    let run_on = |shared: &Shared, at: usize, stdin: Stdio| {
        let mut run = shared.command(at, &["flush", "-", "--stream", "s", "--to"]);
        run.arg(&out).stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // It runs as long as its standard input is open.
    let mut first = Node(run_on(&shared, 2, Stdio::piped()));
    let is_running = |shared: &Shared| {
        let streams = shared.run(0, &["flush", "--json"]);
        String::from_utf8_lossy(&streams.stdout).contains("\"running\":true")
    };
    thread::scope(|scope| {
        let appending: Vec<_> = (0..2)
            .map(|at| {
                let store = terrace::Store::open(&shared.path(NODE_NAMES[at])).unwrap();
                scope.spawn(move || {
                    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
                    let mut producer = stream.producer(NODE_NAMES[at]).unwrap();
                    for number in 0..REQUEST_COUNT {
                        let line = format!("{number}\n");
                        producer.send(Request::append(format!("of-{}", NODE_NAMES[at]), line.clone())).unwrap();
                        producer.send(Request::append("of-both", line)).unwrap();
                    }
                })
            })
            .collect();
        wait_until("the stream runs", || is_running(&shared));
        let refused = run_on(&shared, 1, Stdio::null()).wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && message.contains("run"), "{message}");
        appending.into_iter().for_each(|thread| thread.join().unwrap());
    });
    // What is not delivered yet is delivered by another node, once this one's lease is over.
    first.0.kill().unwrap();
    shared.nodes[2] = None;
    wait_until("another node runs the stream", || run_on(&shared, 1, Stdio::null()).wait().unwrap().success());
    let lines = |name: &str| -> Vec<u64> {
        let text = fs::read_to_string(out.join(name)).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    };
    let all: Vec<u64> = (0..REQUEST_COUNT).collect();
    assert!(lines("of-a") == all && lines("of-b") == all, "in order, each once");
    let mut both = lines("of-both");
    both.sort_unstable();
    let twice: Vec<u64> = all.iter().flat_map(|number| [*number, *number]).collect();
    assert_eq!(both, twice);
}

/// A loss of power takes what a node had not synced. Its frames are counted as synced only once the node has looked which are left:
/// otherwise others could drop the last good replica.
#[test]
fn a_node_that_lost_power_finds_its_lost_replicas() {
    let Some(mut shared) = Shared::start("a node that loses power") else { return };
    let segments = |shared: &Shared| -> BTreeSet<PathBuf> {
        let folder = fs::read_dir(shared.path("c-disk/segments")).into_iter().flatten();
        folder.map(|entry| entry.unwrap().path()).collect()
    };
    // This one syncs nothing after its start.
    shared.nodes[2] = None;
    shared.start_node_under(2, &[], &[("TERRACE_TEND_MILLISECONDS", "10000000")]);
    shared.wait_for_node(2);
    let old = segments(&shared);
    let contents: Vec<Vec<u8>> = (0..9).map(|n| Random::new(n).bytes(700_000 + n as usize)).collect();
    let file = shared.path("c-to-put");
    for (n, bytes) in contents.iter().enumerate() {
        fs::write(&file, bytes).unwrap();
        let mut put = shared.command(n % 3, &["put", "--ack", "replicated", "--replicas", "3"]);
        told(&put.arg(&file).arg(format!("k{n}")).output().unwrap());
    }
    shared.nodes[2] = None;
    let lost: Vec<PathBuf> = segments(&shared).difference(&old).cloned().collect();
    assert!(!lost.is_empty(), "no replica is on the node");
    for segment in &lost {
        let file = fs::File::options().write(true).open(segment).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length / 3).unwrap();
        file.set_len(length).unwrap();
    }
    shared.restart_after_loss_of_power(2);
    told(&shared.run(0, &["sync"]));
    // Every replica is good, without a repair.
    told(&shared.run(1, &["scrub"]));
    for (n, bytes) in contents.iter().enumerate() {
        assert!(shared.get(1, &format!("k{n}")) == *bytes);
    }
}

/// Commits of a shared log outlive the loss of power of a node, so bytes are synced before they replace others.
#[test]
fn what_replaces_an_object_survives_a_loss_of_power() {
    let test = "a node that loses power after objects were replaced";
    let disk = match RecordedDisk::create(DiskFormat::Ext4, 64 << 20) {
        Ok(disk) => disk,
        Err(missing) => return skip(test, &missing),
    };
    let Some(mut shared) = Shared::start_with(test, "", Some(&disk.path())) else { return };
    shared.nodes[2] = None;
    // It syncs what it was not asked to sync after some seconds only.
    shared.start_node_under(2, &[], &[("TERRACE_TEND_MILLISECONDS", "5000")]);
    shared.wait_for_node(2);
    wait_until("the node counts as synced", || shared.status_of(2, "c")["targets"][0]["doubtful"] == false);
    let versions: Vec<Vec<u8>> = (0..2).map(|n| Random::new(n).bytes(400_000 + n as usize)).collect();
    let put = |shared: &Shared, at: usize, key: &str, version: usize, ack: &str| {
        let file = shared.path("to-put");
        fs::write(&file, &versions[version]).unwrap();
        let mut put = shared.command(at, &["put", "--replicas", "1", "--ack", ack]);
        told(&put.arg(&file).arg(key).output().unwrap());
    };
    let moved: Vec<String> = (0..8).map(|n| format!("moved/{n}")).collect();
    moved.iter().for_each(|key| put(&shared, 0, key, 0, "durable"));
    for key in ["put", "renamed"] {
        put(&shared, 2, key, 0, "durable");
    }
    put(&shared, 2, "put", 1, "placed");
    put(&shared, 2, "new", 1, "placed");
    told(&shared.run(2, &["mv", "new", "renamed"]));
    // What leaves the first node comes to the last one.
    shared.nodes[1] = None;
    told(&shared.run(0, &["node", "drain", "a"]));
    assert!(shared.status_of(0, "c")["targets"][0]["frames"].as_u64() > Some(3));
    let position = disk.position().unwrap();
    shared.nodes[2] = None;
    let mut record = disk.power_off().unwrap();
    let image = record.image_at(position, &mut Random::new(5)).unwrap();
    shared.restart_after_loss_of_power(2);
    let moved = moved.iter().map(|key| (key.as_str(), 0));
    for (key, version) in moved.chain([("put", 1), ("renamed", 1)]) {
        assert!(shared.get(0, key) == versions[version], "{key}");
    }
    shared.nodes[2] = None;
    image.unmount().unwrap();
}

/// A node that does not come back takes no object with it, and stops nobody: what it held is made elsewhere, and it can be removed.
#[test]
fn a_dead_node_is_replaced_and_removed() {
    let Some(mut shared) = Shared::start("a node that is removed") else { return };
    let contents: Vec<Vec<u8>> = (0..9).map(|n| Random::new(n).bytes(500_000 + n as usize)).collect();
    // The nodes that are there get the replicas.
    shared.nodes[0] = None;
    for (n, bytes) in contents.iter().enumerate() {
        assert!(shared.put(1 + n % 2, &format!("k{n}"), bytes));
    }
    shared.nodes[1] = None;
    let only = shared.path("only");
    fs::write(&only, &contents[0]).unwrap();
    told(&shared.command(2, &["put", "--replicas", "1"]).arg(&only).arg("only").output().unwrap());
    for at in 0..2 {
        shared.start_node_under(at, &[], &[("TERRACE_REBUILD_AFTER_SECONDS", "2")]);
    }
    (0..2).for_each(|at| shared.wait_for_node(at));
    let place: serde_json::Value = serde_json::from_str(&told(&shared.run(0, &["locate", "only", "--json"]))).unwrap();
    assert_eq!(place["extents"][0]["replicas"][0]["node"], "c", "{place}");
    shared.nodes[2] = None;
    // Before anybody knows that it does not come back.
    let durable = shared.command(0, &["put", "--ack", "durable"]).arg(&only).arg("durable").output().unwrap();
    told(&durable);
    wait_until("other nodes have made the replicas of the dead one", || {
        shared.status_of(1, "c")["targets"][0]["frames"] == 1
    });
    let refused = shared.run(1, &["node", "remove", "c"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("only replicas of 1 objects"), "{message}");
    let unknown = shared.run(1, &["node", "remove", "d"]);
    assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("a, b, c"));
    told(&shared.run(1, &["node", "remove", "c", "--force"]));
    for at in 0..2 {
        for (n, bytes) in contents.iter().enumerate() {
            assert!(shared.get(at, &format!("k{n}")) == *bytes);
        }
        assert!(shared.get(at, "durable") == contents[0]);
    }
    assert!(!shared.run(0, &["cat", "only"]).status.success());
    told(&shared.run(0, &["rm", "only"]));
    assert!(shared.status_of(0, "c").is_null(), "{}", shared.status_of(0, "c"));
    told(&shared.run(1, &["scrub"]));
    told(&shared.run(0, &["sync"]));
    told(&shared.run(0, &["health", "--wait", "safe"]));
    // It can still use the store, without a target of its own.
    shared.start_node(2, &[]);
    wait_until("the removed node follows the log", || shared.run(2, &["ls"]).status.success());
    assert!(shared.put(2, "later", &contents[1]) && shared.get(0, "later") == contents[1]);
    let located = told(&shared.run(0, &["locate", "later", "--json"]));
    assert!(!located.contains("\"c\""), "{located}");
}

/// A node with a target is added while others use the store, also by processes that have had it open for long.
#[test]
fn a_node_with_a_target_is_added() {
    let Some(mut shared) = Shared::start("a node that is added") else { return };
    let bytes = Random::new(8).bytes(300_000);
    let stores = [0, 1].map(|at| terrace::Store::open(&shared.path(NODE_NAMES[at])).unwrap());
    let port = free_ports()[0];
    let address = format!("http://127.0.0.1:{port}/disk");
    let add = |tier: &str| shared.run(1, &["node", "add", "d", "--tier", tier, "--target", &address]);
    let unknown = add("tape");
    let message = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && message.contains("no tier \"tape\""), "{message}");
    told(&add("disk"));
    let again = add("disk");
    assert!(
        !again.status.success() && String::from_utf8_lossy(&again.stderr).contains("a target of this store already")
    );
    // It is away until its node is there.
    stores[0].put_bytes(b"before", &bytes, &terrace::PutOptions::default()).unwrap();
    assert_eq!(shared.status_of(0, "d")["there"], false);
    let text = fs::read_to_string(shared.path("a-targets.toml")).unwrap();
    let ports = |text: &str| text.lines().next().unwrap().to_owned();
    let text = text.replace(&ports(&text), &format!("listen = '127.0.0.1:{port}'"));
    let text = text.replace(shared.path("a-disk").to_str().unwrap(), shared.path("d-disk").to_str().unwrap());
    fs::write(shared.path("d-targets.toml"), text).unwrap();
    let mut command = shared.command(0, &["node", "--no-listen", "--join", &shared.log, "--name", "d", "--targets"]);
    command.arg(shared.path("d-targets.toml")).env("TERRACE_STORE", shared.path("d"));
    let log = fs::File::options().append(true).open(shared.path("nodes.log")).unwrap();
    shared.nodes.push(Some(Node(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())));
    wait_until("the new node serves its target", || {
        let target = &shared.status_of(0, "d")["targets"][0];
        target["incarnation"].as_u64() > Some(0) && target["doubtful"] == false
    });
    let file = shared.path("to-put");
    fs::write(&file, &bytes).unwrap();
    for key in ["on d", "also"] {
        let mut put = shared.command(0, &["put", "--replicas", "1"]);
        told(&put.env("TERRACE_STORE", shared.path("d")).arg(&file).arg(key).output().unwrap());
    }
    let located = told(&shared.run(1, &["locate", "on d", "--json"]));
    assert!(located.contains("\"node\":\"d\""), "{located}");
    for store in &stores {
        assert!(store.get(b"on d").unwrap() == bytes && store.get(b"before").unwrap() == bytes);
    }
    drop(stores);
    told(&shared.run(2, &["node", "remove", "d"]));
    assert!(shared.get(1, "also") == bytes && shared.status_of(0, "d")["targets"] == serde_json::json!([]));
}

/// Rules are changed by any node, and by an editor.
#[test]
fn changed_rules_reach_all_nodes() {
    let Some(shared) = Shared::start("rules of a shared store") else { return };
    let rules = |at: usize| fs::read_to_string(shared.path(NODE_NAMES[at]).join("terrace.toml")).unwrap();
    let edited = format!("{}\n[[rule]]\nprefix = 'three'\nreplicas = 3\n", rules(1));
    fs::write(shared.path("b/terrace.toml"), edited).unwrap();
    wait_until("all nodes have the rule", || (0..3).all(|at| rules(at).contains("three")));
    assert!(shared.put(2, "three/a", b"some bytes"));
    let located = told(&shared.run(0, &["locate", "three/a", "--json"]));
    assert_eq!(located.matches("\"node\":").count(), 3, "{located}");
    // More than rules is not taken from a file.
    fs::write(shared.path("c/terrace.toml"), rules(2).replace("\"disk\"", "\"tape\"")).unwrap();
    wait_until("the file is as before", || rules(2) == rules(0));
    assert!(fs::read_to_string(shared.path("c/terrace.toml.unused")).unwrap().contains("tape"));
    assert!(shared.put(2, "three/b", b"other bytes") && shared.get(1, "three/b") == b"other bytes");
}

/// etcd has lost everything. The log is made again from what a node has of it; a node that has more does not follow.
#[test]
fn a_log_that_etcd_has_lost_is_made_again_from_a_node() {
    let Some(mut shared) = Shared::start("a log that is lost") else { return };
    let contents: Vec<Vec<u8>> = (0..6).map(|n| Random::new(n).bytes(300_000 + n as usize)).collect();
    for (n, bytes) in contents.iter().enumerate() {
        assert!(shared.put(n % 3, &format!("k{n}"), bytes));
    }
    let here = shared.run(0, &["cluster", "recover"]);
    assert!(!here.status.success(), "the node runs");
    // The last node misses what comes now.
    shared.nodes[2] = None;
    assert!(shared.put(0, "late", &contents[0]));
    told(&shared.run(0, &["sync"]));
    told(&shared.run(1, &["ls"]));
    shared.nodes[0] = None;
    shared.nodes[1] = None;
    let refused = shared.run(0, &["cluster", "recover"]);
    assert!(!refused.status.success(), "the log is there");
    shared.etcd.replace_data(None);
    let lost = shared.run(0, &["node", "--no-listen"]);
    let message = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(!lost.status.success() && message.contains("no shared log"), "{message}");
    told(&shared.run(2, &["cluster", "recover"]));
    let ahead = shared.run(0, &["node", "--no-listen"]);
    let message = String::from_utf8_lossy(&ahead.stderr).into_owned();
    assert!(!ahead.status.success() && message.contains("cluster recover"), "{message}");
    // Nobody has used that log.
    told(&shared.run(0, &["cluster", "recover"]));
    let refused = shared.run(0, &["cluster", "recover"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("start the nodes"), "{message}");
    // So it is once a node has used it.
    shared.etcd.replace_data(None);
    told(&shared.run(2, &["cluster", "recover"]));
    shared.start_node(2, &[]);
    wait_until("the node follows the log", || shared.run(2, &["ls"]).status.success());
    told(&shared.run(2, &["put", shared.path("a-to-put").to_str().unwrap(), "not kept"]));
    shared.nodes[2] = None;
    wait_until("only force helps", || {
        let refused = shared.run(0, &["cluster", "recover"]);
        assert!(!refused.status.success());
        String::from_utf8_lossy(&refused.stderr).contains("--force")
    });
    told(&shared.run(0, &["cluster", "recover", "--force"]));
    // The last node has followed the other log, and joins again.
    let other = shared.run(2, &["node", "--no-listen"]);
    let message = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(!other.status.success() && message.contains("join again"), "{message}");
    fs::remove_dir_all(shared.path("c")).unwrap();
    let (log, snapshots) = (shared.log.clone(), shared.path("snapshots"));
    shared.start_node(2, &["--join", &log, "--name", "c", "--snapshots", snapshots.to_str().unwrap()]);
    for at in 0..2 {
        shared.start_node(at, &[]);
    }
    for at in 0..3 {
        shared.wait_for_node(at);
        for (n, bytes) in contents.iter().enumerate() {
            assert!(shared.get(at, &format!("k{n}")) == *bytes);
        }
        assert!(shared.get(at, "late") == contents[0]);
        assert!(shared.put(at, &format!("after-{at}"), &contents[at]));
    }
    told(&shared.run(1, &["sync"]));
    told(&shared.run(2, &["scrub"]));
}

#[test]
fn the_guide_to_clusters_works_as_it_says() {
    let etcd = match EtcdCluster::start(&[]) {
        Ok(etcd) => etcd,
        Err(missing) => return skip("the guide to clusters", &missing),
    };
    let folder = tempfile::tempdir().unwrap();
    let below = |path: &str| folder.path().join(path).display().to_string();
    for made in ["etc", "mnt", "mnt/pfs", "srv", "runs"] {
        fs::create_dir(below(made)).unwrap();
    }
    fs::write(below("etc/secret"), "the-secret-of-this-test").unwrap();
    fs::set_permissions(below("etc/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    for name in ["a.h5", "b.h5"] {
        fs::write(folder.path().join("runs").join(name), Random::new(3).bytes(1_200_000)).unwrap();
    }
    let (ports, servers) = (free_ports(), etcd.ports().into_iter().map(|port| format!("127.0.0.1:{port}")));
    let mut replaced = vec![
        ("/etc/terrace", below("etc")),
        ("/mnt/", below("mnt/")),
        ("/srv/", below("srv/")),
        ("etcd://127.0.0.1:2379", format!("etcd://{}", servers.collect::<Vec<_>>().join(","))),
        ("s,/mnt/a/,/mnt/b/,", "s,/a/nvme,/b/nvme,".to_owned()),
        ("s,/mnt/a/,/mnt/c/,", "s,/a/nvme,/c/nvme,".to_owned()),
        ("s/5701/5702/", format!("s/{}/{}/", ports[0], ports[1])),
        ("s/5701/5703/", format!("s/{}/{}/", ports[0], ports[2])),
    ];
    for (shown, port) in ["127.0.0.1:5701", "127.0.0.1:5702", "127.0.0.1:5703"].into_iter().zip(&ports) {
        replaced.push((shown, format!("127.0.0.1:{port}")));
    }
    for (shown, port) in
        ["http://127.0.0.1:5701", "http://127.0.0.1:5702", "http://127.0.0.1:5703"].into_iter().zip(&ports)
    {
        replaced.push((shown, format!("http://127.0.0.1:{port}")));
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_terrace")).parent().unwrap();
    let ran = Guide { name: "cluster.md", folder: folder.path(), programs, replaced: &replaced, before: &|_| {} }.run();
    assert!(ran > 12, "only {ran} commands were found");
}

/// `TERRACE_NODE_KILLS` is the number of kills.
#[test]
fn killed_nodes_and_servers_lose_nothing_that_was_replicated() {
    let Some(mut shared) = Shared::start("a store whose nodes are killed") else { return };
    let (seed, kills) = (number("TERRACE_SEED", 1), number("TERRACE_NODE_KILLS", 5));
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut kept: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    // Puts that were not acknowledged. They may have been carried out, even after later ones.
    let mut open: Vec<(String, Vec<u8>)> = Vec::new();
    let (mut acknowledged, mut refused) = (0, 0);
    for round in 0..kills {
        // Each node's machine puts an object, and one node or one server is killed meanwhile.
        let victim = random.below(3) as usize;
        let writers: Vec<_> = (0..NODE_NAMES.len())
            .map(|at| {
                let (key, length) = (format!("k{at}-{}", random.below(20)), random.below(MAX_OBJECT_BYTES) as usize);
                let bytes = random.bytes(length);
                (shared.begin_put(at, &key, &bytes), key, bytes)
            })
            .collect();
        thread::sleep(Duration::from_millis(random.below(400)));
        if random.once_in(3) {
            let member = random.below(EtcdCluster::MEMBER_COUNT as u64) as usize;
            shared.etcd.kill(member);
            shared.etcd.start_again();
        } else {
            shared.nodes[victim] = None;
        }
        for (mut put, key, bytes) in writers {
            // Its node may be the dead one. It would wait for another one.
            if !shared.is_running(victim) && key.starts_with(&format!("k{victim}")) && put.try_wait().unwrap().is_none()
            {
                put.kill().unwrap();
            }
            if put.wait().unwrap().success() {
                kept.insert(key, bytes);
                acknowledged += 1;
            } else {
                open.push((key, bytes));
                refused += 1;
            }
        }
        let at = (0..3).find(|at| shared.is_running(*at)).unwrap();
        // An object whose put was not acknowledged may have its only replica on the dead node.
        for (key, bytes) in kept.iter().filter(|(key, _)| open.iter().all(|(unsure, _)| unsure != *key)) {
            assert!(shared.get(at, key) == *bytes, "round {round}, seed {seed}: {key} on {}", NODE_NAMES[at]);
        }
        if !shared.is_running(victim) {
            thread::sleep(Duration::from_millis(random.below(500)));
            shared.start_node(victim, &[]);
            shared.wait_for_node(victim);
        }
    }
    println!("{kills} kills, {acknowledged} puts acknowledged, {refused} not");
    assert!(acknowledged > 0);
    told(&shared.run(0, &["sync"]));
    for (at, name) in NODE_NAMES.iter().enumerate() {
        for (key, bytes) in &kept {
            let got = shared.get(at, key);
            assert!(got == *bytes || open.contains(&(key.clone(), got)), "seed {seed}: {key} on {name}");
        }
    }
    told(&shared.run(1, &["scrub"]));
}
