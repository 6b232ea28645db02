//! Moves beside damaged replicas.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::thread;

use terrace::{Error, PutOptions, Store};
use terrace_testkit::noise;

use crate::common::{replicated, store_of, tier};
use crate::tiers_of;

/// Damages the middle of each segment of a target.
fn damage(target: &Path) {
    for entry in fs::read_dir(target.join("segments")).unwrap() {
        let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
        (0..file.metadata().unwrap().len() / 100_000)
            .for_each(|part| file.write_all_at(&[0x5a; 100], part * 100_000 + 50_000).unwrap());
    }
}

/// A drain and an eviction dropped the good replicas although the others were bad, even if the last scrub had found them.
#[test]
fn no_good_replica_leaves_beside_bad_ones() {
    for leave in [|store: &Store| store.evict(b"", "a"), |store: &Store| store.drain("a")] {
        let dir = tempfile::tempdir().unwrap();
        let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], ""), tier(dir.path(), "b", &["b"], "")]);
        let bytes = noise(300_000, 1);
        store.put_bytes(b"k", &bytes, &replicated()).unwrap();
        store.sync().unwrap();
        damage(&dir.path().join("b"));
        assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 1);
        assert_eq!(leave(&store).unwrap().dropped, 1);
        store.sync().unwrap();
        fs::rename(dir.path().join("a"), dir.path().join("away")).unwrap();
        assert!(store.get(b"k").unwrap() == bytes);
    }
}

/// Each of two moves took a replica that the other one dropped for the good one that stays, because a bad third one was there.
#[test]
fn of_two_moves_at_once_one_leaves_a_good_replica() {
    for round in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let tiers = ["a", "b", "c"].map(|name| tier(dir.path(), name, &[name], ""));
        let store = store_of(dir.path(), &tiers);
        let objects: Vec<(Vec<u8>, Vec<u8>)> =
            (0..20).map(|number| (format!("k{number}").into_bytes(), noise(300_000, number))).collect();
        for (key, bytes) in &objects {
            store.put_bytes(key, bytes, &PutOptions { replicas: Some(3), ..replicated() }).unwrap();
        }
        store.sync().unwrap();
        damage(&dir.path().join("c"));
        if round % 2 == 0 {
            assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 20);
        }
        let at_once = std::sync::Barrier::new(2);
        thread::scope(|scope| {
            for tier in ["a", "b"] {
                let (store, at_once) = (&store, &at_once);
                scope.spawn(move || {
                    at_once.wait();
                    if round < 3 { store.drain(tier) } else { store.evict(b"", tier) }.unwrap();
                });
            }
        });
        for (key, bytes) in &objects {
            assert!(store.get(key).unwrap() == *bytes, "round {round}");
        }
    }
}

/// A tier of two targets was drained to one: the good replica was dropped at once, and the new one could not be made of the bad one.
#[test]
fn the_last_good_replica_leaves_after_the_new_one_is_made() {
    for (leave, damaged) in [(true, "a"), (true, "b"), (false, "a"), (false, "b")] {
        let dir = tempfile::tempdir().unwrap();
        let tiers = [tier(dir.path(), "disk", &["a", "b"], ""), tier(dir.path(), "archive", &["c"], "")];
        let store = store_of(dir.path(), &tiers);
        let objects: Vec<(Vec<u8>, Vec<u8>)> =
            (0..5).map(|number| (format!("k{number}").into_bytes(), noise(300_000, number))).collect();
        for (key, bytes) in &objects {
            store.put_bytes(key, bytes, &replicated()).unwrap();
            assert_eq!(tiers_of(&store, key), [["disk", "disk"]]);
        }
        store.sync().unwrap();
        damage(&dir.path().join(damaged));
        let moved = if leave { store.drain("disk") } else { store.evict(b"", "disk") }.unwrap();
        assert_eq!((moved.made, moved.dropped, moved.kept), (5, 10, 0), "{moved:?}");
        for (key, bytes) in &objects {
            assert_eq!(tiers_of(&store, key), [["archive"]]);
            assert!(store.get(key).unwrap() == *bytes, "damaged {damaged}");
        }
    }
}

/// A replica that could not be read because its disk failed counted as a good one.
#[test]
fn no_replica_leaves_beside_one_that_cannot_be_read() {
    for leave in [|store: &Store| store.evict(b"", "a"), |store: &Store| store.drain("a")] {
        let dir = tempfile::tempdir().unwrap();
        let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], ""), tier(dir.path(), "b", &["b"], "")]);
        let objects = [(b"k", noise(300_000, 1)), (b"l", noise(300_000, 2))];
        for (key, bytes) in &objects {
            store.put_bytes(*key, bytes, &replicated()).unwrap();
        }
        store.sync().unwrap();
        let place = store.dir().to_owned();
        drop(store);
        for entry in fs::read_dir(dir.path().join("b/segments")).unwrap() {
            let file = entry.unwrap().path();
            fs::rename(&file, file.with_extension("away")).unwrap();
            // A link to itself: to open it is an error that tells nothing about the bytes.
            symlink(&file, &file).unwrap();
        }
        let store = Store::open(&place).unwrap();
        match leave(&store) {
            Ok(moved) => assert_eq!(moved.dropped, 0),
            // Where the background thread has begun to write there again, the disk cannot be synced either.
            Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
        }
        for (key, bytes) in &objects {
            assert!(store.get(*key).unwrap() == *bytes);
        }
    }
}
