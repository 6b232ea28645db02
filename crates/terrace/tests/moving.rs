//! Staging, evicting, draining; adding and removing tiers.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use terrace::report::ReplicaState;
use terrace::{Ack, Config, Error, PutOptions, Store};

fn new_store(dir: &Path) -> Store {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\n\
         [[tier]]\nname = 'pfs'\nkind = 'directory'\ntargets = ['{d}/c']\n"
    );
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

fn fill(store: &Store) -> Vec<(Vec<u8>, Vec<u8>)> {
    let options = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    let objects: Vec<(Vec<u8>, Vec<u8>)> = [0, 10, 5000, 300_000, 2_500_000]
        .into_iter()
        .map(|length| (format!("d/{length}").into_bytes(), (0..length).map(|i| (i / 7) as u8).collect()))
        .collect();
    for (key, bytes) in &objects {
        store.put_bytes(key, bytes, &options).unwrap();
    }
    // Parts of a frame are moved as one.
    store.write_at(b"d/300000", 1000, &[9; 500], &options).unwrap();
    objects
}

fn tiers_of(store: &Store, key: &[u8]) -> Vec<Vec<String>> {
    let location = store.locate(key).unwrap();
    let present = |r: &&terrace::report::ReplicaLocation| r.state == ReplicaState::Present;
    let tiers =
        |e: &terrace::report::ExtentLocation| e.replicas.iter().filter(present).map(|r| r.tier.clone()).collect();
    location.extents.iter().map(tiers).collect()
}

fn all_good(store: &Store, objects: &[(Vec<u8>, Vec<u8>)]) {
    for (key, bytes) in objects {
        let mut bytes = bytes.clone();
        if bytes.len() == 300_000 {
            bytes[1000..1500].fill(9);
        }
        assert!(store.get(key).unwrap() == bytes, "{}", String::from_utf8_lossy(key));
    }
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0));
}

#[test]
fn staged_and_evicted_data_is_where_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let objects = fill(&store);
    store.stage(b"d", "pfs").unwrap();
    for (key, _) in &objects {
        assert!(
            tiers_of(&store, key).iter().all(|tiers| *tiers == ["ram", "disk", "pfs"]),
            "{:?}",
            tiers_of(&store, key)
        );
    }
    assert_eq!(store.stage(b"d", "pfs").unwrap().made, 0, "it is there already");
    let evicted = store.evict(b"d", "ram").unwrap();
    assert_eq!((evicted.made, evicted.kept), (0, 0));
    store.evict(b"d", "pfs").unwrap();
    for (key, _) in &objects {
        assert!(tiers_of(&store, key).iter().all(|tiers| *tiers == ["disk"]));
    }
    // The last replica is moved, not dropped.
    let moved = store.evict(b"d", "disk").unwrap();
    assert!(moved.made > 0 && moved.kept == 0);
    assert!(tiers_of(&store, b"d/2500000").iter().all(|tiers| tiers.len() == 1 && tiers != &["disk"]));
    all_good(&store, &objects);
    assert!(matches!(store.stage(b"d", "tape"), Err(Error::Config(says)) if says.contains("there are ram, disk, pfs")));
}

#[test]
fn a_drained_tier_can_be_removed_and_its_number_is_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let objects = fill(&store);
    let home = dir.path().join("store");
    drop(store);
    assert!(
        matches!(Store::remove_tier(&home, "disk"), Err(Error::Config(says)) if says.contains("terrace drain disk"))
    );
    let store = Store::open(&home).unwrap();
    let moved = store.drain("disk").unwrap();
    assert_eq!(moved.kept, 0);
    all_good(&store, &objects);
    drop(store);
    Store::remove_tier(&home, "disk").unwrap();
    let more = format!("[[tier]]\nname = 'nvme'\nkind = 'directory'\ntargets = ['{}/n']\n", dir.path().display());
    let more = Config::parse_tiers(&more, "more").unwrap();
    Store::add_tiers(&home, more.clone(), Some("pfs")).unwrap();
    assert!(matches!(Store::add_tiers(&home, more, None), Err(Error::Config(_))), "it is there already");
    let store = Store::open(&home).unwrap();
    let names: Vec<&str> = store.config().tiers.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["ram", "nvme", "pfs"]);
    let numbers: Vec<_> = store.config().tiers.iter().flat_map(|t| &t.targets).map(|t| t.number).collect();
    assert_eq!(numbers, [Some(0), Some(4), Some(3)], "1 and 2 were the drained tier's");
    store.stage(b"", "nvme").unwrap();
    store.sync().unwrap();
    all_good(&store, &objects);
    let before = store.catalog().dump().unwrap();
    drop(store);
    assert!(Store::rebuild(&home).unwrap().catalog().dump().unwrap() == before);
}
