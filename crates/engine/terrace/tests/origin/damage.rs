//! Damage, crashes and lost power: what is cached of an origin may be lost, and is read again.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use terrace::Store;
use terrace_testkit::noise;

use super::common::{check_and_rebuild, tier};
use super::{AT_ONCE, Place};

#[test]
fn a_catalog_from_the_log_has_names_and_cached_bytes() {
    let place = Place::with_files(&[("a/f", &noise(500_000, 1)), ("g", &noise(3_000_000, 2))]);
    assert_eq!(place.names(), ["a/f", "g"]);
    place.get("a/f").unwrap();
    place.store.read_at(b"data/o/g", 1_000_000, &mut [0; 10]).unwrap();
    let before = place.store.origins().unwrap();
    let Place { folder, store } = place;
    let store = check_and_rebuild(store, folder.path());
    let after = store.origins().unwrap();
    assert_eq!((before[0].files, before[0].cached), (after[0].files, after[0].cached));
    // Only what is not cached needs the origin.
    fs::rename(folder.path().join("origin"), folder.path().join("away")).unwrap();
    assert!(store.get(b"data/o/a/f").unwrap() == noise(500_000, 1));
    assert!(store.get(b"data/o/g").is_err());
    fs::rename(folder.path().join("away"), folder.path().join("origin")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(store.get(b"data/o/g").unwrap() == noise(3_000_000, 2));
}

#[test]
fn damaged_cached_bytes_are_fetched_again() {
    let bytes = noise(2_000_000, 1);
    let place = Place::with_files(&[("f", &bytes)]);
    assert!(place.get("f").unwrap() == bytes);
    let location = place.store.locate(b"data/o/f").unwrap();
    for extent in &location.extents {
        assert_eq!(extent.replicas.len(), 1, "one replica is enough");
        let replica = &extent.replicas[0];
        let file = fs::OpenOptions::new().write(true).open(replica.file.as_ref().unwrap()).unwrap();
        file.write_all_at(&[0xA5; 64], replica.position.unwrap() + 200).unwrap();
    }
    let Place { folder, store } = place;
    store.close().unwrap();
    // A new process has none of it in memory.
    let store = Store::open(&folder.path().join("store")).unwrap();
    assert!(store.get(b"data/o/f").unwrap() == bytes);
    store.repair_suspects().unwrap();
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0));
}

#[test]
fn lost_memory_loses_only_the_cache() {
    let bytes = noise(2_000_000, 1);
    let place = Place::with_files(&[("f", &bytes)]);
    assert!(place.get("f").unwrap() == bytes);
    place.store.sync().unwrap();
    let Place { folder, store } = place;
    store.close().unwrap();
    let home = folder.path().join("store");
    fs::remove_dir_all(folder.path().join("ram")).unwrap();
    fs::remove_dir_all(folder.path().join("disk/segments")).unwrap();
    fs::write(home.join("boot"), "another boot").unwrap();
    let store = Store::open(&home).unwrap();
    assert!(store.get(b"data/o/f").unwrap() == bytes);
}

/// A process that is killed in the middle of a fetch or of a listing leaves a store that reads all.
#[test]
fn a_killed_reader_leaves_a_good_store() {
    for point in ["origin:fetch", "origin:written", "origin:stored", "origin:listed", "commit:logged"] {
        let place = Place::new(AT_ONCE);
        let bytes = noise(1_500_000, 7);
        place.write("d/f", &bytes);
        let Place { folder, store } = place;
        store.close().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "damage::killed_child", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
        child.env("TEST_ORIGIN_STORE", folder.path().join("store")).env("TERRACE_FAIL_POINT", point);
        let status = child.status().unwrap();
        assert!(!status.success(), "{point} was not reached");
        let store = Store::open(&folder.path().join("store")).unwrap();
        assert_eq!(super::names_below(&store, "data/o"), ["d/f"]);
        assert!(store.get(b"data/o/d/f").unwrap() == bytes, "{point}");
        let store = check_and_rebuild(store, folder.path());
        assert!(store.get(b"data/o/d/f").unwrap() == bytes, "{point}");
    }
}

#[test]
fn killed_child() {
    let Ok(home) = std::env::var("TEST_ORIGIN_STORE") else { return };
    let store = Store::open(home.as_ref()).unwrap();
    super::names_below(&store, "data/o");
    store.get(b"data/o/d/f").unwrap();
}

/// Fetched bytes that find no room are passed on.
#[test]
fn a_full_store_reads_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::create_dir(dir.join("origin")).unwrap();
    let bytes = noise(6 << 20, 1);
    fs::write(dir.join("origin/f"), &bytes).unwrap();
    let store = super::store_of(dir, &[tier(dir, "disk", &["disk"], "capacity = '2MiB'")]);
    store.add_origin("o", dir.join("origin").to_str().unwrap(), Default::default(), None).unwrap();
    for _ in 0..3 {
        assert!(store.get(b"o/f").unwrap() == bytes);
    }
    let cached = store.origins().unwrap()[0].cached;
    assert!(cached <= 2 << 20, "{cached}");
}
