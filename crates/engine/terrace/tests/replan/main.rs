//! Replanning of stored objects: cold ones become denser, and all follow changed rules.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod copies;
mod renames;
mod rules;
mod waiting;

use std::fs;
use std::path::Path;

use terrace::report::{Location, ReplicaState};
use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::Random;

const TIERS_TOML: &str = "[[tier]]\nname = 'quick'\nkind = 'directory'\ntargets = ['DIR/quick']\n\
     throttle = { read = '400MB/s', write = '400MB/s' }\n\
     [[tier]]\nname = 'slow'\nkind = 'directory'\ntargets = ['DIR/a', 'DIR/b']\n\
     throttle = { read = '100MB/s', write = '100MB/s' }\n";

fn new_store(dir: &Path) -> Store {
    new_store_with(dir, "")
}

fn new_store_with(dir: &Path, rules: &str) -> Store {
    let text = format!("[store]\nreplicas = {{ default = 2 }}\n{TIERS_TOML}{rules}")
        .replace("DIR", &dir.display().to_string());
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// Text of some thousand words, which encodings make shorter by different shares.
fn bytes() -> Vec<u8> {
    let mut random = Random::new(7);
    (0..150_000).flat_map(|_| format!("word{} ", random.below(3000)).into_bytes()).collect()
}

fn put(store: &Store, key: &str) {
    let options = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(key.as_bytes(), &bytes(), &options).unwrap();
}

fn stored(location: &Location) -> u64 {
    location.extents.iter().flat_map(|extent| &extent.replicas).map(|replica| replica.stored).sum()
}

/// The tiers of the replicas that are there, of each extent.
fn replicas(store: &Store, key: &str) -> Vec<Vec<String>> {
    let location = store.locate(key.as_bytes()).unwrap();
    let of = |extent: &terrace::report::ExtentLocation| {
        let there = extent.replicas.iter().filter(|r| r.state == ReplicaState::Present);
        let mut tiers: Vec<String> = there.map(|r| r.tier.clone()).collect();
        tiers.sort();
        tiers
    };
    location.extents.iter().map(of).collect()
}

#[test]
fn what_is_cold_is_encoded_more_densely_where_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    put(&store, "d/cold");
    put(&store, "d/hot");
    for _ in 0..3 {
        store.get(b"d/hot").unwrap();
    }
    let before = ["d/cold", "d/hot"].map(|key| store.locate(key.as_bytes()).unwrap());
    let moved = store.tune(b"d", false).unwrap();
    assert!(moved.made > 0);
    let after = ["d/cold", "d/hot"].map(|key| store.locate(key.as_bytes()).unwrap());
    assert!(stored(&after[0]) * 20 < stored(&before[0]) * 17, "{} of {}", stored(&after[0]), stored(&before[0]));
    assert_eq!(stored(&after[1]), stored(&before[1]), "what is hot stays");
    assert!(replicas(&store, "d/cold").iter().all(|tiers| *tiers == ["quick", "slow"]));
    assert_eq!(store.tune(b"d", false).unwrap().made, 0, "it is as dense as can be");
    assert!(store.tune(b"d", true).unwrap().made > 0, "what is hot, too");
    for key in ["d/cold", "d/hot"] {
        assert!(store.get(key.as_bytes()).unwrap() == bytes());
    }
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.away), (0, 0, 0));
}

/// Changes the number of replicas of the first rule.
fn set_replicas(store: &Store, replicas: u8) {
    let file = store.dir().join("terrace.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rule) = text.split_once("[[rule]]").unwrap();
    let at = rule.find("replicas = ").unwrap() + "replicas = ".len();
    fs::write(&file, format!("{before}[[rule]]{}{replicas}{}", &rule[..at], &rule[at + 1..])).unwrap();
}
