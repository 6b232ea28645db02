//! A store with a tier of the example's kind.

#![allow(clippy::unwrap_used)]

use terrace::{Config, PutOptions, Store};

#[test]
fn a_store_keeps_objects_in_it() {
    sqlite_target::register().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let tier = |options: &str| {
        let path = dir.path().join("tier/frames.sqlite");
        let tier = "[[tier]]\nname = 'database'\nkind = 'sqlite'\ncapacity = '64MiB'\n";
        let text = format!("{tier}targets = ['{}']\noptions = {{ {options} }}\n", path.display());
        Config::parse(&text, "example")
    };
    for (options, reason) in [("page_size = 1000", "no power of two"), ("pages = 3", "unknown option \"pages\"")] {
        let error = tier(options).unwrap_err().to_string();
        assert!(error.contains("tier \"database\"") && error.contains(reason), "{error}");
    }
    let home = dir.path().join("store");
    let store = Store::init(&home, &tier("page_size = 16384").unwrap()).unwrap();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    store.put_bytes(b"runs/a", &bytes, &PutOptions::default()).unwrap();
    store.sync().unwrap();
    store.close().unwrap();

    let store = Store::open(&home).unwrap();
    assert!(store.get(b"runs/a").unwrap() == bytes);
    let extents = store.locate(b"runs/a").unwrap().extents;
    assert!(extents.iter().flat_map(|extent| &extent.replicas).all(|replica| replica.tier == "database"));
    store.remove(b"runs/a").unwrap();
    store.close().unwrap();

    let store = Store::rebuild(&home).unwrap();
    assert!(store.list(b"", None, 1).unwrap().is_empty());
    drop(store);
    Store::destroy(&home, false).unwrap();
    assert!(!dir.path().join("tier/frames.sqlite").exists());
}
