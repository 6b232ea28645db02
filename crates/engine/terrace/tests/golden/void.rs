//! Commits that the log calls void.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::golden::pack;

use crate::{Golden, copy, golden, objects, repeated, tiers_config, unlike};

fn void_contents() -> BTreeMap<String, Vec<u8>> {
    let all = [("kept", repeated(60_000, 1)), ("overwritten", repeated(40_000, 2))];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

/// A restart of the machine takes a write that was in memory only: the log then says that this commit is void.
fn write_void(dir: &Path, config: Config, archive: &Path) {
    let home = dir.join("store");
    let store = Store::init(&home, &config).unwrap();
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    for (key, bytes) in void_contents() {
        store.put_bytes(key.as_bytes(), &bytes, &durable).unwrap();
    }
    store.sync().unwrap();
    // From here on nothing is moved, so what follows stays in memory.
    let mover = File::options().write(true).open(home.join("mover")).unwrap();
    mover.lock().unwrap();
    let tiers = Some(vec!["ram".to_owned()]);
    let placed = PutOptions { ack: Some(Ack::Placed), replicas: Some(1), tiers, ..PutOptions::default() };
    store.write_at(b"overwritten", 5000, &repeated(20_000, 3), &placed).unwrap();
    store.put_bytes(b"lost", &repeated(50_000, 4), &placed).unwrap();
    // What is on the disks now is what the restart leaves.
    let left = tempfile::tempdir().unwrap();
    for part in ["store", "a", "b"] {
        copy(&dir.join(part), &left.path().join(part));
    }
    drop(mover);
    drop(store);
    for part in ["store", "a", "b", "ram"] {
        fs::remove_dir_all(dir.join(part)).unwrap();
    }
    copy(left.path(), dir);
    fs::remove_dir_all(home.join("catalog")).unwrap();
    fs::write(home.join("boot"), "another boot").unwrap();
    let store = Store::open(&home).unwrap();
    assert!(objects(&store) == void_contents(), "{:?}", objects(&store).keys());
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn writes_that_a_golden_store_calls_void_stay_so() {
    let Golden { dir, store } = golden("void", tiers_config, write_void);
    assert!(objects(&store) == void_contents(), "{:?}", objects(&store).keys());
    unlike(&store);
    // The log alone leads to the same, though it still has the writes.
    store.close().unwrap();
    let home = dir.path().join("store");
    fs::remove_dir_all(home.join("catalog")).unwrap();
    assert!(objects(&Store::rebuild(&home).unwrap()) == void_contents());
}
