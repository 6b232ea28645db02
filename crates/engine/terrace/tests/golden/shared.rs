//! Objects that share frames.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use terrace::{Config, Store};
use terrace_testkit::golden::pack;

use crate::common::replicated;
use crate::{Golden, golden, objects, repeated, tiers_config, unlike};

fn shared_contents() -> BTreeMap<String, Vec<u8>> {
    let first = repeated(2_100_000, 1);
    let mut changed = first.clone();
    changed[1000..21_000].copy_from_slice(&repeated(20_000, 2));
    let all =
        [("copy", first.clone()), ("changed", changed), ("cut", first[..5000].to_vec()), ("small", repeated(700, 3))];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

/// The first object is gone, its frames are not.
fn write_shared(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    store.put_bytes(b"first", &repeated(2_100_000, 1), &replicated()).unwrap();
    store.sync().unwrap();
    for to in ["copy", "changed", "cut"] {
        store.copy(b"first", to.as_bytes()).unwrap();
    }
    store.write_at(b"changed", 1000, &repeated(20_000, 2), &replicated()).unwrap();
    store.set_length(b"cut", 5000).unwrap();
    store.remove(b"first").unwrap();
    store.put_bytes(b"first", &repeated(700, 3), &replicated()).unwrap();
    store.copy(b"first", b"small").unwrap();
    store.remove(b"first").unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn copies_of_a_golden_store_share_frames() {
    let Golden { dir, store } = golden("shared", tiers_config, write_shared);
    assert!(objects(&store) == shared_contents(), "{:?}", objects(&store).keys());
    unlike(&store);
    assert_eq!(store.catalog().miscounted_frames().unwrap(), []);
    let mut owners = Vec::new();
    store.catalog().each_shared_frame(|_, frame| owners.push(frame.owners)).unwrap();
    owners.sort_unstable();
    assert!(owners.len() > 2 && owners[0] == 1 && owners.ends_with(&[3]), "{owners:?}");
    store.close().unwrap();
    let home = dir.path().join("store");
    fs::remove_dir_all(home.join("catalog")).unwrap();
    assert!(objects(&Store::rebuild(&home).unwrap()) == shared_contents());
}
