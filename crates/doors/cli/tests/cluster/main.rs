//! Three nodes that share a store, in processes of their own: each reads what another one acknowledged, although nodes are killed.

#![allow(clippy::panic, clippy::unwrap_used)]

mod changes;
mod doors;
mod faults;
mod mounts;
mod shared;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use terrace_testkit::guide::Guide;
use terrace_testkit::{EtcdCluster, Random, free_ports, skip};

use shared::{NODE_NAMES, Shared, told};

terrace_testkit::disk_server!();

const MAX_OBJECT_BYTES: u64 = 3 << 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
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
    let (ports, servers) =
        (free_ports(NODE_NAMES.len()), etcd.ports().into_iter().map(|port| format!("127.0.0.1:{port}")));
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
