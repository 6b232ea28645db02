//! Nodes hang, lose power or do not come back, and etcd loses the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use terrace_testkit::disk::{DiskFormat, RecordedDisk};
use terrace_testkit::{Random, SmallDisk, skip, wait_until};

use crate::shared::{More, NODE_NAMES, Shared, told};

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
    assert!(holders["a"] == 24 && holders["b"] > 0 && holders["c"] > 0, "{holders:?}");
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
    (0..2000).for_each(|n| fs::write(folder.join(format!("{n}")), &bytes[n..30_000 + n]).unwrap());
    let mut put = shared.command(2, &["put"]).arg(&folder).arg("many/").stderr(Stdio::null()).spawn().unwrap();
    wait_until("it writes", || !shared.run(0, &["ls", "many/"]).stdout.is_empty());
    shared.nodes[2] = None;
    wait_until("it gives up", || put.try_wait().unwrap().is_some_and(|status| !status.success()));
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
    let Some(mut shared) = Shared::start_with(test, &More { last_target: Some(&disk.path()), ..More::default() })
    else {
        return;
    };
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

/// A disk of a node is lost with all that was on it. Nothing is written to its mount point until somebody says that it is lost for good.
#[test]
fn a_lost_disk_of_a_node_is_replaced() {
    let Some(mut shared) = Shared::start("a disk of a node that is lost") else { return };
    let contents: Vec<Vec<u8>> = (0..9).map(|n| Random::new(n).bytes(300_000 + n as usize)).collect();
    for (n, bytes) in contents.iter().enumerate() {
        assert!(shared.put(n % 3, &format!("k{n}"), bytes));
    }
    let frames = |shared: &Shared| shared.status_of(0, "c")["targets"][0]["frames"].as_u64().unwrap();
    let before = frames(&shared);
    let runs = shared.run(2, &["tiers", "renew", "disk"]);
    assert!(before > 2 && String::from_utf8_lossy(&runs.stderr).contains("its node runs"));
    shared.nodes[2] = None;
    let disk = shared.path("c-disk");
    fs::remove_dir_all(&disk).unwrap();
    fs::create_dir(&disk).unwrap();
    shared.start_node(2, &[]);
    wait_until("the target is away", || String::from_utf8_lossy(&shared.run(2, &["status"]).stdout).contains("away"));
    assert!(shared.get(2, "k2") == contents[2] && fs::read_dir(&disk).unwrap().next().is_none());
    shared.nodes[2] = None;
    let unknown = shared.run(2, &["tiers", "renew", "pfs"]);
    assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("there are disk"));
    told(&shared.run(2, &["tiers", "renew", "disk"]));
    shared.start_node(2, &[]);
    shared.wait_for_node(2);
    wait_until("its replicas are pending or made", || {
        told(&shared.run(0, &["sync"]));
        shared.run(0, &["scrub"]).status.success()
    });
    assert_eq!(frames(&shared), before);
    for (n, bytes) in contents.iter().enumerate() {
        assert!(shared.get(2, &format!("k{n}")) == *bytes);
    }
    told(&shared.run(0, &["health", "--wait", "safe"]));
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

/// The disk of a node's target is full: the other nodes take what is written. Then that of its directory is full: it cannot follow the log,
/// and the others go on without it. It comes back when there is room.
#[test]
fn a_disk_of_a_node_is_full() {
    let test = "full disks of a node";
    let dir = tempfile::tempdir().unwrap();
    let mount = |name: &str, size: &str| SmallDisk::mount(test, &dir.path().join(name), size);
    let (Some(data), Some(index)) = (mount("data", "size=24m"), mount("index", "size=24m")) else { return };
    let more = More { last_target: Some(data.path()), last_store: Some(index.path()), ..More::default() };
    let Some(mut shared) = Shared::start_with(test, &more) else { return };
    let contents: Vec<Vec<u8>> = (0..9).map(|n| Random::new(n).bytes(1_000_000)).collect();
    let all_are_there = |shared: &Shared, count: usize, nodes: &[usize]| {
        for at in nodes {
            for (n, bytes) in contents[..count].iter().enumerate() {
                assert!(shared.get(*at, &format!("k{n}")) == *bytes, "k{n} on {}", NODE_NAMES[*at]);
            }
        }
    };
    data.fill_but(0);
    for (n, bytes) in contents[..3].iter().enumerate() {
        assert!(shared.put(n, &format!("k{n}"), bytes), "the others have room");
    }
    all_are_there(&shared, 3, &[0, 1, 2]);
    data.make_room();
    told(&shared.run(0, &["sync"]));

    index.fill_but(0);
    for (n, bytes) in contents.iter().enumerate().skip(3) {
        assert!(shared.put(n % 2, &format!("k{n}"), bytes), "the others go on");
    }
    // More than the node's catalog has room for.
    for round in 0..2 {
        let folder = shared.path(&format!("x{round}"));
        fs::create_dir(&folder).unwrap();
        (0..500).for_each(|n| fs::write(folder.join(n.to_string()), [n as u8; 100]).unwrap());
        told(&shared.run(round % 2, &["put", folder.to_str().unwrap(), &format!("x{round}"), "--replicas", "1"]));
    }
    all_are_there(&shared, 9, &[0, 1]);
    index.make_room();
    let mut was_started = false;
    wait_until("the node follows again", || {
        // It may have ended, with the reason.
        if !was_started && shared.nodes[2].as_mut().is_some_and(|node| node.0.try_wait().unwrap().is_some()) {
            was_started = true;
            shared.start_node(2, &[]);
        }
        shared.run(2, &["cat", "k8"]).stdout == contents[8]
    });
    all_are_there(&shared, 9, &[2]);
    assert!(shared.put(2, "later", &contents[0]));
    told(&shared.run(2, &["sync"]));
    told(&shared.run(0, &["scrub"]));
}
