//! Tiers that vanish, empty, fill or are damaged; stores that cannot be what they are taken for.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use terrace::report::TierState;
use terrace::{Ack, Config, Error, PutOptions, Store};
use terrace_testkit::{noise, wait_until};

fn config(dir: &Path, capacity: &str) -> Config {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\ncapacity = '{capacity}'\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a']\ncapacity = '{capacity}'\n\
         [[tier]]\nname = 'pfs'\nkind = 'directory'\ntargets = ['{d}/b']\ncapacity = '{capacity}'\n"
    );
    Config::parse(&text, "test").unwrap()
}

fn new_store(dir: &Path) -> Store {
    Store::init(&dir.join("store"), &config(dir, "1GiB")).unwrap()
}

fn replicated() -> PutOptions {
    PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() }
}

fn replicas(store: &Store, key: &[u8]) -> Vec<Vec<String>> {
    let extents = store.locate(key).unwrap().extents;
    extents.iter().map(|e| e.replicas.iter().map(|r| r.tier.clone()).collect()).collect()
}

#[test]
fn memory_that_a_reboot_emptied_is_filled_again() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000, 1);
    let store = new_store(dir.path());
    store.put_bytes(b"k", &bytes, &replicated()).unwrap();
    store.put_bytes(b"small", &bytes[..100], &replicated()).unwrap();
    store.close().unwrap();
    fs::remove_dir_all(dir.path().join("ram")).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert_eq!(store.status().unwrap().owed, 4);
    assert!(store.get(b"k").unwrap() == bytes);
    store.sync().unwrap();
    assert!(replicas(&store, b"k").iter().all(|tiers| *tiers == ["ram", "disk"]));
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.checked, scrubbed.bad), (8, 0));
}

#[test]
fn a_tier_that_is_not_mounted_is_away_and_nothing_is_written_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000, 2);
    let store = new_store(dir.path());
    let all = PutOptions { replicas: Some(3), ..replicated() };
    store.put_bytes(b"k", &bytes, &all).unwrap();
    drop(store);
    fs::rename(dir.path().join("a"), dir.path().join("unmounted")).unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    let home = dir.path().join("store");
    let store = Store::open(&home).unwrap();
    let state = |store: &Store| store.status().unwrap().tiers.iter().find(|t| t.name == "disk").unwrap().state;
    assert_eq!(state(&store), TierState::Away);
    assert!(store.get(b"k").unwrap() == bytes);
    store.put_bytes(b"meanwhile", &bytes, &replicated()).unwrap();
    store.remove(b"k").unwrap();
    store.put_bytes(b"k", &bytes[..500_000], &replicated()).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 0, "something was written to the mount point");
    fs::remove_dir(dir.path().join("a")).unwrap();
    fs::rename(dir.path().join("unmounted"), dir.path().join("a")).unwrap();
    let since = Instant::now();
    while state(&store) != TierState::Ok {
        assert!(since.elapsed() < Duration::from_secs(20), "the tier does not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(store.get(b"k").unwrap() == bytes[..500_000], "what was deleted while the tier was away is back");
    store.sync().unwrap();
    store.reap_now().unwrap();
    let before = store.catalog().dump().unwrap();
    drop(store);
    let store = Store::rebuild(&home).unwrap();
    assert!(store.catalog().dump().unwrap() == before);
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

/// Moves the directories of `a` and `b` into each other's places.
fn swap(dir: &Path) {
    for (from, to) in [("a", "other"), ("b", "a"), ("other", "b")] {
        fs::rename(dir.join(from), dir.join(to)).unwrap();
    }
}

/// The scrub took the replicas on both targets for bad, and every object for lost; that stayed noted when the directories were
/// back, although all their bytes were good.
#[test]
fn targets_that_have_changed_places_are_away_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{at}/a', '{at}/b']\n");
    let home = dir.path().join("store");
    let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
    let bytes = noise(3_000_000, 31);
    store.put_bytes(b"k", &bytes, &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
    store.close().unwrap();
    swap(dir.path());
    let store = Store::open(&home).unwrap();
    assert_eq!(store.status().unwrap().tiers[0].state, TierState::Away);
    for repair in [false, true] {
        let found = store.scrub(b"", repair, None, |_| {}).unwrap();
        assert!(found.away > 0, "{found:?}");
        assert_eq!((found.checked, found.bad, found.lost), (0, 0, 0));
    }
    let refused = store.get(b"k").unwrap_err().to_string();
    assert!(refused.contains("belongs to another store or target"), "{refused}");
    assert_eq!(store.find_lost().unwrap(), [] as [Vec<u8>; 0]);
    drop(store);
    swap(dir.path());
    let store = Store::open(&home).unwrap();
    assert!(store.get(b"k").unwrap() == bytes);
    store.sync().unwrap();
    assert_eq!(store.find_lost().unwrap(), [] as [Vec<u8>; 0]);
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.away, found.bad, found.lost), (6, 0, 0, 0));
}

/// A file with the same name, of another store, was read; its bytes counted as damage.
#[test]
fn bytes_of_another_store_in_the_place_of_a_target_are_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let one = PutOptions { ack: Some(Ack::Durable), replicas: Some(1), ..PutOptions::default() };
    let store_at = |name: &str| {
        let folder = dir.path().join(name);
        let text =
            format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", folder.join("t").display());
        fs::create_dir(&folder).unwrap();
        Store::init(&folder.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
    };
    let (store, other) = (store_at("ours"), store_at("theirs"));
    let bytes = noise(500_000, 32);
    store.put_bytes(b"k", &bytes, &one).unwrap();
    other.put_bytes(b"k", &noise(500_000, 33), &one).unwrap();
    other.close().unwrap();
    let home = store.dir().to_owned();
    drop(store);
    // It has seen its target, and opened none of its files.
    let store = Store::open(&home).unwrap();
    let place = |name: &str| dir.path().join(name);
    fs::rename(place("ours/t"), place("moved")).unwrap();
    fs::rename(place("theirs/t"), place("ours/t")).unwrap();
    let refused = store.get(b"k").unwrap_err().to_string();
    assert!(refused.contains("belongs to another store or target"), "{refused}");
    assert_eq!(store.find_lost().unwrap(), [] as [Vec<u8>; 0]);
    let found = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((found.away, found.bad, found.lost), (1, 0, 0));
    fs::rename(place("ours/t"), place("theirs/t")).unwrap();
    fs::rename(place("moved"), place("ours/t")).unwrap();
    assert!(store.get(b"k").unwrap() == bytes);
}

/// Only a scrub of the whole store took back that an object had lost bytes.
#[test]
fn an_object_whose_bytes_are_found_again_is_not_lost() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("t").display());
    let home = dir.path().join("store");
    let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
    let bytes = noise(1_500_000, 34);
    let keys: [&[u8]; 2] = [b"d/read", b"d/scrubbed"];
    for key in keys {
        store.put_bytes(key, &bytes, &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
    }
    store.close().unwrap();
    let (folder, moved) = (dir.path().join("t/segments"), dir.path().join("moved"));
    fs::rename(&folder, &moved).unwrap();
    fs::create_dir(&folder).unwrap();
    let store = Store::open(&home).unwrap();
    assert!(keys.iter().all(|key| store.get(key).is_err()));
    assert_eq!(store.find_lost().unwrap(), keys);
    drop(store);
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(&moved, &folder).unwrap();
    let store = Store::open(&home).unwrap();
    assert_eq!(store.find_lost().unwrap(), keys);
    store.get_to(keys[0], 0, Some(1000), std::io::sink()).unwrap();
    assert_eq!(store.find_lost().unwrap(), keys, "the rest of it was not read");
    store.get_to(keys[0], 0, None, std::io::sink()).unwrap();
    assert_eq!(store.find_lost().unwrap(), keys[1..]);
    store.scrub(keys[1], false, None, |_| {}).unwrap();
    assert_eq!(store.find_lost().unwrap(), [] as [Vec<u8>; 0]);
    store.sync().unwrap();
}

/// They waited for the tier for ever, and the bytes in memory were lost with the next restart.
#[test]
fn replicas_that_are_owed_to_a_tier_that_went_away_are_made_on_another() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000, 5);
    let store = new_store(dir.path());
    fs::rename(dir.path().join("a"), dir.path().join("unmounted")).unwrap();
    store.put_bytes(b"k", &bytes, &PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() }).unwrap();
    assert!(store.status().unwrap().owed > 0);
    let state = || store.status().unwrap().tiers.iter().find(|tier| tier.name == "disk").unwrap().state;
    wait_until("the tier is away", || state() == TierState::Away);
    let repair = |prefix| store.scrub(prefix, true, None, |_| {}).unwrap().redirected;
    assert_eq!(repair(b"other"), 0);
    assert_eq!(repair(b"k"), replicas(&store, b"k").len() as u64);
    assert_eq!(store.status().unwrap().owed, 0);
    assert!(replicas(&store, b"k").iter().all(|tiers| *tiers == ["ram", "pfs"]), "{:?}", replicas(&store, b"k"));
    fs::remove_dir_all(dir.path().join("ram")).unwrap();
    drop(store);
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(store.get(b"k").unwrap() == bytes);
}

#[test]
fn a_tier_that_is_lost_for_good_is_renewed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000, 3);
    let store = new_store(dir.path());
    store.put_bytes(b"k", &bytes, &replicated()).unwrap();
    drop(store);
    fs::remove_dir_all(dir.path().join("a")).unwrap();
    let home = dir.path().join("store");
    drop(Store::open(&home).unwrap());
    assert!(!dir.path().join("a").exists());
    let store = Store::renew_tier(&home, "disk", false).unwrap().unwrap();
    assert_eq!(store.status().unwrap().owed, 3);
    store.sync().unwrap();
    assert!(replicas(&store, b"k").iter().all(|tiers| *tiers == ["ram", "disk"]));
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

#[test]
fn when_every_tier_is_full_a_write_fails_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(&dir.path().join("store"), &config(dir.path(), "4MiB")).unwrap();
    let bytes = noise(3_000_000, 4);
    let one = PutOptions { replicas: Some(1), ..PutOptions::default() };
    for n in 0..3 {
        store.put_bytes(format!("k{n}").as_bytes(), &bytes, &one).unwrap();
    }
    let other = store.clone();
    // What there is of an object outlives a write to it that fails.
    let grows = std::thread::spawn(move || other.write_at(b"k1", 1000, &noise(6_000_000, 6), &PutOptions::default()));
    let failed = store.put_bytes(b"more", &noise(6_000_000, 5), &one).unwrap_err();
    assert!(
        matches!(&failed, Error::NoSpace { tiers } if ["ram", "disk", "pfs"].iter().all(|name| tiers.contains(name))),
        "{failed}"
    );
    assert!(matches!(grows.join().unwrap(), Err(Error::NoSpace { .. })));
    assert!(matches!(store.get(b"more"), Err(Error::NotFound { .. })));
    for n in 0..3 {
        assert!(store.get(format!("k{n}").as_bytes()).unwrap() == bytes);
    }
    // What the failed write took is given back, and so is what is deleted.
    store.remove(b"k0").unwrap();
    store.put_bytes(b"more", &bytes, &one).unwrap();
    assert!(store.get(b"more").unwrap() == bytes);
}

#[test]
fn a_segment_stored_as_an_object_is_not_taken_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let old = noise(200_000, 6);
    store.put_bytes(b"k", &old, &replicated()).unwrap();
    let segment = store.locate(b"k").unwrap().extents[0].replicas[1].file.clone().unwrap();
    let inside = fs::read(segment).unwrap();
    // Raw and aligned, so that its frames stand on the disk just as they do in the segment.
    store.put_bytes(b"inside", &inside, &replicated()).unwrap();
    store.put_bytes(b"k", b"new", &replicated()).unwrap();
    store.sync().unwrap();
    let before = store.catalog().dump().unwrap();
    let home = dir.path().join("store");
    drop(store);
    let store = Store::rebuild(&home).unwrap();
    assert!(store.catalog().dump().unwrap() == before);
    assert_eq!(store.get(b"k").unwrap(), b"new");
    assert!(store.get(b"inside").unwrap() == inside);
}

#[test]
fn a_catalog_that_is_damaged_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("store");
    let store = new_store(dir.path());
    for n in 0..200 {
        store.put_bytes(format!("k{n}").as_bytes(), &noise(n * 100, 7), &replicated()).unwrap();
    }
    store.sync().unwrap();
    let before = store.catalog().dump().unwrap();
    drop(store);
    let data = home.join("catalog/data.mdb");
    let length = fs::metadata(&data).unwrap().len() as usize;
    fs::write(&data, noise(length, 8)).unwrap();
    let failed = Store::open(&home).map(|_| ()).unwrap_err().to_string();
    assert!(failed.contains("terrace rebuild"), "{failed}");
    assert!(Store::rebuild(&home).unwrap().catalog().dump().unwrap() == before);
}

#[test]
fn stores_of_another_kind_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("store");
    let refused = |says: &str| {
        let error = Store::open(&home).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    refused("terrace init");
    drop(new_store(dir.path()));
    let identity = fs::read_to_string(home.join("store")).unwrap();
    fs::write(home.join("store"), identity.replace("format 1", "format 9")).unwrap();
    refused("use a newer terrace");
    fs::write(home.join("store"), "format one\n").unwrap();
    refused("damaged");
    fs::write(home.join("store"), &identity).unwrap();
    assert!(Store::init(&home, &config(dir.path(), "1GiB")).is_err());
}

#[test]
fn a_read_ends_well_or_says_that_it_was_overtaken() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let long = noise(12_000_000, 9);
    store.put_bytes(b"k", &long, &replicated()).unwrap();
    struct Slow(Store, Vec<u8>);
    impl std::io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.1.is_empty() {
                // The object is replaced and all its space given back while the first bytes go out.
                self.0.put_bytes(b"k", b"short", &replicated()).unwrap();
                self.0.sync().unwrap();
                self.0.reap_now().unwrap();
            }
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Slow(store.clone(), Vec::new());
    let read = store.get_to(b"k", 0, None, &mut sink);
    assert!(matches!(read, Err(Error::Replaced { .. })), "{read:?}");
    assert!(long.starts_with(&sink.1), "bytes of two generations");
}
