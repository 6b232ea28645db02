//! Stored bytes of an origin make room for newer bytes, and for the store's own.

use std::fs;
use std::path::Path;

use terrace::{PutOptions, Store};
use terrace_testkit::{noise, wait_until};

use super::common::{check_and_rebuild, store_of, tier};
use super::{ASK_ONCE, AT_ONCE, Place};

const FILE_BYTES: usize = 1 << 20;
const FILE_COUNT: u64 = 24;

/// A store with this tier, and an origin with more bytes than it has.
fn small_store(dir: &Path, tiers: &[String]) -> Store {
    fs::create_dir(dir.join("origin")).unwrap();
    for n in 0..FILE_COUNT {
        fs::write(dir.join("origin").join(n.to_string()), noise(FILE_BYTES, n)).unwrap();
    }
    let store = store_of(dir, tiers);
    store.add_origin("o", dir.join("origin").to_str().unwrap(), Default::default(), Some(ASK_ONCE)).unwrap();
    store
}

fn read(store: &Store, n: u64) {
    assert!(store.get(format!("o/{n}").as_bytes()).unwrap() == noise(FILE_BYTES, n));
}

fn cached(store: &Store) -> u64 {
    store.origins().unwrap()[0].cached
}

fn is_cached(store: &Store, n: u64) -> bool {
    !store.locate(format!("o/{n}").as_bytes()).unwrap().extents.is_empty()
}

#[test]
fn newer_bytes_take_the_place_of_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let store = small_store(dir, &[tier(dir, "disk", &["disk"], "capacity = '8MiB'")]);
    for n in 0..FILE_COUNT {
        // At first there is no room, and then older bytes have gone.
        wait_until("the file is stored", || {
            read(&store, n);
            store.reap_now().unwrap();
            is_cached(&store, n)
        });
    }
    let stored = cached(&store);
    assert!((2 << 20..=8 << 20).contains(&stored), "{stored}");
    assert!(!is_cached(&store, 0), "the first ones went first");
    (0..FILE_COUNT).for_each(|n| read(&store, n));
    let store = check_and_rebuild(store, dir);
    (0..FILE_COUNT).for_each(|n| read(&store, n));
}

#[test]
fn own_bytes_take_the_place_of_cached_ones_and_never_make_room_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let disk = tier(dir, "disk", &["disk"], "capacity = '8MiB'\nhigh_watermark = 1.0");
    let store = small_store(dir, &[disk]);
    let one = PutOptions { replicas: Some(1), ..PutOptions::default() };
    store.put_bytes(b"own/0", &noise(2 << 20, 100), &one).unwrap();
    (0..FILE_COUNT).for_each(|n| read(&store, n));
    assert!(cached(&store) > 0);
    for n in 1..3u64 {
        store.put_bytes(format!("own/{n}").as_bytes(), &noise(2 << 20, 100 + n), &one).unwrap();
    }
    (0..FILE_COUNT).for_each(|n| read(&store, n));
    for n in 0..3 {
        assert!(store.get(format!("own/{n}").as_bytes()).unwrap() == noise(2 << 20, 100 + n));
    }
    assert!(cached(&store) <= 2 << 20);
}

#[test]
fn cached_bytes_leave_a_full_memory_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let ram = tier(dir, "ram", &["ram"], "capacity = '6MiB'\npersistent = false");
    let store = small_store(dir, &[ram, tier(dir, "disk", &["disk"], "")]);
    (0..FILE_COUNT).for_each(|n| read(&store, n));
    assert_eq!(cached(&store), FILE_COUNT * FILE_BYTES as u64, "all of it has room");
    store.sync().unwrap();
    (0..FILE_COUNT).for_each(|n| read(&store, n));
    assert_eq!(cached(&store), FILE_COUNT * FILE_BYTES as u64);
}

#[test]
fn evict_drops_and_stage_fetches() {
    let place = Place::without_origin();
    for n in 0..5u64 {
        place.write(&n.to_string(), &noise(3_000_000, n));
    }
    place.add(ASK_ONCE);
    let store = &place.store;
    let mut seen = 0;
    let fetched = store.fetch_origins(b"data", 5_000_000, &mut |done| seen = done.fetched).unwrap();
    assert_eq!((fetched.files, fetched.fetched, fetched.left, seen), (5, 5_000_000, 10_000_000, 5_000_000));
    let fetched = store.fetch_origins(b"data", u64::MAX, &mut |_| {}).unwrap();
    assert_eq!((fetched.files, fetched.left, place.cached()), (5, 0, 15_000_000));
    fs::rename(place.origin(), place.dir().join("away")).unwrap();
    for n in 0..5u64 {
        assert!(place.get(&n.to_string()).unwrap() == noise(3_000_000, n));
    }
    let moved = store.stage(b"data/o/1", "disk").unwrap();
    assert_eq!(moved.kept, 0);
    for tier in ["ram", "disk"] {
        store.evict(b"data/o", tier).unwrap();
    }
    assert_eq!(place.cached(), 0);
    assert_eq!(place.names().len(), 5);
    assert!(place.get("0").is_err());
    fs::rename(place.dir().join("away"), place.origin()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(place.get("0").unwrap() == noise(3_000_000, 0));
}

#[test]
fn a_tier_with_cached_bytes_can_be_drained_and_removed() {
    let place = Place::with_files(&[("f", &noise(3_000_000, 1))]);
    place.get("f").unwrap();
    place.store.drain("ram").unwrap();
    let Place { folder, store } = place;
    store.close().unwrap();
    Store::remove_tier(&folder.path().join("store"), "ram").unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    assert!(store.get(b"data/o/f").unwrap() == noise(3_000_000, 1));
}

/// An object with the attributes of a file of an origin counted as one: its bytes were dropped as if they could be fetched again.
#[test]
fn an_object_with_the_attributes_of_an_origins_file_keeps_its_bytes() {
    let place = Place::new(AT_ONCE);
    let (store, bytes) = (&place.store, noise(300_000, 1));
    place.write("f", &bytes);
    assert!(place.get("f").unwrap() == bytes);
    let attributes = store.stat(b"data/o/f").unwrap().attributes;
    let with = PutOptions { attributes: Some(attributes.clone()), ..PutOptions::default() };
    store.put_bytes(b"own/put", &bytes, &with).unwrap();
    store.put_bytes(b"own/set", &bytes, &PutOptions::default()).unwrap();
    store.set_attributes(b"own/set", attributes.clone()).unwrap();
    store.put_bytes(b"own/later", &bytes, &PutOptions::default()).unwrap();
    let mut batch = store.batch();
    batch.put(b"own/batch", &bytes, &with).unwrap();
    batch.set_attributes(b"own/later", attributes);
    batch.commit().unwrap();
    store.copy(b"data/o/f", b"own/copy").unwrap();
    store.copy(b"own/put", b"own/shared").unwrap();
    fs::remove_file(place.origin().join("f")).unwrap();
    store.sync().unwrap();
    for tier in ["ram", "disk"] {
        store.evict(b"own", tier).unwrap();
    }
    for name in ["put", "set", "later", "batch", "copy", "shared"] {
        assert!(store.get(format!("own/{name}").as_bytes()).unwrap() == bytes, "{name}");
    }
}
