//! Bytes that are read often move to faster tiers, and others make room for them.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use terrace::report::ReplicaState;
use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::{Random, wait_until};

const MIB_BYTES: usize = 1 << 20;

/// A small quick tier and a slow one, both persistent.
fn new_store(dir: &Path, quick: &str, replicas: u8) -> Store {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ default = {replicas} }}\nweights = 'asynchronous'\n\
         [[tier]]\nname = 'quick'\nkind = 'directory'\ntargets = ['{d}/quick']\ncapacity = '{quick}'\n\
         [[tier]]\nname = 'slow'\nkind = 'directory'\ntargets = ['{d}/slow']\n\
         throttle = {{ read = '40MB/s', write = '200MB/s', latency = '2ms' }}\n"
    );
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// Bytes that no encoding makes shorter.
fn bytes(seed: u8) -> Vec<u8> {
    Random::new(u64::from(seed)).bytes(2 * MIB_BYTES)
}

fn put(store: &Store, key: &str, seed: u8) {
    let options = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(key.as_bytes(), &bytes(seed), &options).unwrap();
}

/// Whether every extent has a replica on a tier.
fn is_on(store: &Store, key: &str, tier: &str) -> bool {
    let on = |r: &terrace::report::ReplicaLocation| r.tier == tier && r.state == ReplicaState::Present;
    store.locate(key.as_bytes()).unwrap().extents.iter().all(|extent| extent.replicas.iter().any(on))
}

#[test]
fn what_is_read_often_gets_a_copy_on_the_faster_tier_and_what_is_not_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "64MiB", 1);
    for key in ["often", "once"] {
        put(&store, key, 1);
        store.stage(key.as_bytes(), "slow").unwrap();
        store.evict(key.as_bytes(), "quick").unwrap();
        assert!(!is_on(&store, key, "quick") && is_on(&store, key, "slow"));
    }
    store.get(b"once").unwrap();
    for _ in 0..12 {
        assert_eq!(store.get(b"often").unwrap(), bytes(1));
    }
    // What other processes have read is known, too: it is kept.
    drop(store);
    let store = Store::open(&dir.path().join("store")).unwrap();
    let hot = store.hot(b"", 10).unwrap();
    assert_eq!((hot[0].key.as_str(), hot[0].offset, hot[0].tier.as_str()), ("often", 0, "slow"));
    assert!(hot[0].score > 11.0 && hot.iter().any(|range| range.key == "once" && range.score < 1.1), "{hot:?}");
    assert_eq!(store.promote().unwrap(), 2, "both extents");
    assert_eq!(store.promote().unwrap(), 0, "it is on its way");
    store.sync().unwrap();
    assert!(is_on(&store, "often", "quick") && is_on(&store, "often", "slow"));
    assert!(!is_on(&store, "once", "quick"));
    assert_eq!(store.get(b"often").unwrap(), bytes(1));
    assert!(store.hot(b"other", 10).unwrap().is_empty());
}

#[test]
fn above_the_high_watermark_the_coldest_leaves_first() {
    for replicas in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let store = new_store(dir.path(), "16MiB", replicas);
        put(&store, "a-hot", 1);
        put(&store, "b-cold", 2);
        assert!(is_on(&store, "a-hot", "quick"), "new bytes go to the faster tier");
        for _ in 0..5 {
            store.get(b"a-hot").unwrap();
        }
        let mut number = 0;
        // The rest of what the quick tier holds, and more than its high watermark allows.
        while is_on(&store, "b-cold", "quick") {
            assert!(number < 40, "nothing is evicted");
            put(&store, &format!("c{number}"), 3);
            number += 1;
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        assert!(is_on(&store, "a-hot", "quick"), "{replicas} replicas: what is read stays, whatever its name");
        assert!(is_on(&store, "b-cold", "slow"));
        for (key, seed) in [("a-hot", 1), ("b-cold", 2), ("c0", 3)] {
            assert!(store.get(key.as_bytes()).unwrap() == bytes(seed), "{key}");
        }
    }
}

/// The replicas that this process has put are remembered. Those of others are found by a search, part by part.
#[test]
fn replicas_that_another_process_has_put_leave_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "16MiB", 2);
    let names: Vec<String> = (0..6).map(|number| format!("old{number}")).collect();
    names.iter().for_each(|name| put(&store, name, 4));
    store.sync().unwrap();
    store.close().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let mut number = 0;
    while names.iter().any(|name| is_on(&store, name, "quick")) {
        assert!(number < 60, "nothing is evicted");
        put(&store, &format!("new{number}"), 5);
        number += 1;
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for name in &names {
        assert!(store.get(name.as_bytes()).unwrap() == bytes(4), "{name}");
    }
}

/// A store whose tier in memory is full to its mark with objects that nobody reads, which it returns, and "hot" on a disk.
fn full_store(dir: &Path, memory: &Path, disks: &[&str], rule: &str) -> (Store, Vec<String>) {
    let disks: Vec<String> = disks.iter().map(|disk| format!("'{}'", dir.join(disk).display())).collect();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n{rule}\n\
         [[tier]]\nname = 'quick'\nkind = 'directory'\ntargets = ['{}']\ncapacity = '16MiB'\npersistent = false\n\
         [[tier]]\nname = 'slow'\nkind = 'directory'\ntargets = [{}]\n\
         throttle = {{ read = '40MB/s', write = '200MB/s', latency = '2ms' }}\n",
        memory.display(),
        disks.join(", ")
    );
    let store = Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    put(&store, "hot", 1);
    store.evict(b"hot", "quick").unwrap();
    wait_until("its garbage is freed", || {
        store.sync().unwrap();
        store.status().unwrap().tiers[0].used < MIB_BYTES as u64
    });
    let cold: Vec<String> = (0..7).map(|number| format!("cold{number}")).collect();
    cold.iter().zip(10..).for_each(|(key, seed)| put(&store, key, seed));
    store.sync().unwrap();
    assert!(!is_on(&store, "hot", "quick") && cold.iter().all(|key| is_on(&store, key, "quick")));
    (store, cold)
}

/// The tier in memory was full to its mark with bytes that nobody read, and nothing was written any more: what was read all the time stayed
/// on the slow tier for ever.
#[test]
fn what_is_read_often_takes_the_place_of_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (store, cold) = full_store(dir.path(), memory.path(), &["one", "two"], "");
    wait_until("what is hot is in memory", || {
        store.promote().unwrap();
        store.get(b"hot").unwrap() == bytes(1) && is_on(&store, "hot", "quick")
    });
    let left = cold.iter().filter(|key| !is_on(&store, key, "quick")).count();
    assert!(left <= 3, "{left} objects made room for one");
    for (key, seed) in cold.iter().zip(10..) {
        assert!(store.get(key.as_bytes()).unwrap() == bytes(seed), "{key}");
        let location = store.locate(key.as_bytes()).unwrap();
        assert!(location.extents.iter().all(|extent| extent.replicas.len() >= 2), "{key}");
    }
}

/// Reads of objects that their rule keeps off the quick tier emptied it; and others left it although they needed that replica.
#[test]
fn nothing_is_displaced_that_is_needed_or_for_what_may_not_come() {
    let rule = "[[rule]]\nprefix = 'hot'\ntiers = ['slow']";
    for (disks, rule) in [(&["one", "two"][..], rule), (&["one"], "")] {
        let dir = tempfile::tempdir().unwrap();
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (store, cold) = full_store(dir.path(), memory.path(), disks, rule);
        for _ in 0..12 {
            assert!(store.get(b"hot").unwrap() == bytes(1));
        }
        (0..3).for_each(|_| assert_eq!(store.promote().unwrap(), 0));
        store.sync().unwrap();
        assert!(cold.iter().all(|key| is_on(&store, key, "quick")), "{disks:?}");
    }
}

/// An eviction took single extents out of plain files, which keep their space until they are deleted as a whole: the tier stayed full, and
/// more and more replicas left it.
#[test]
fn plain_files_are_evicted_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'quick'\nkind = 'directory'\ntargets = ['{d}/quick']\ncapacity = '16MiB'\nlayout = 'plain'\n\
         [[tier]]\nname = 'slow'\nkind = 'directory'\ntargets = ['{d}/slow']\n"
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let keys: Vec<String> = (0..12).map(|number| format!("k{number}")).collect();
    keys.iter().zip(1..).for_each(|(key, seed)| put(&store, key, seed));
    let extents_on_quick = |key: &String| {
        let found = store.locate(key.as_bytes()).unwrap();
        let on = |r: &terrace::report::ReplicaLocation| r.tier == "quick" && r.state == ReplicaState::Present;
        found.extents.iter().filter(|extent| extent.replicas.iter().any(on)).count()
    };
    wait_until("some have left", || keys.iter().any(|key| extents_on_quick(key) == 0));
    store.sync().unwrap();
    let left = keys.iter().filter(|key| extents_on_quick(key) == 0).count();
    assert!(left < 10, "{left} files left a tier that takes seven");
    for (key, seed) in keys.iter().zip(1..) {
        assert!([0, 2].contains(&extents_on_quick(key)), "a part of {key} left");
        assert!(store.get(key.as_bytes()).unwrap() == bytes(seed), "{key}");
    }
}
