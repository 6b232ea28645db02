//! Copies of the log that are damaged, gone, or cannot be read.

use std::fs;
use std::path::{Path, PathBuf};

use terrace::Store;
use terrace::report::FindingCode;

use super::common::replicated;
use super::{at_rest_behind_a_snapshot, contents, filled, flip, goes_on, logs, make_unreadable, refuses};

/// Only the last bytes of a copy were compared with the log, and only by a sync.
#[test]
fn a_copy_that_is_damaged_in_the_middle_is_found_and_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (home, _) = filled(dir.path());
    let store = Store::open(&home).unwrap();
    for number in 0..40 {
        store.put_bytes(format!("short/{number}").as_bytes(), &[7; 100], &replicated()).unwrap();
    }
    store.sync().unwrap();
    let is_log = |path: &&PathBuf| !path.starts_with(&home);
    let before: Vec<(PathBuf, Vec<u8>)> =
        logs(dir.path()).iter().filter(is_log).map(|copy| (copy.clone(), fs::read(copy).unwrap())).collect();
    assert!(before.len() == 2 && before.iter().all(|(_, bytes)| bytes.len() > 4300));
    let are_whole = || before.iter().all(|(copy, bytes)| fs::read(copy).unwrap()[..bytes.len()] == *bytes);
    before.iter().for_each(|(copy, _)| flip(copy, 100));
    let damaged = |repair| store.scrub(b"", repair, None, |_| {}).unwrap().log_copies_damaged;
    assert_eq!((damaged(false), damaged(false)), (2, 2));
    assert!(store.health().unwrap().findings.iter().any(|found| found.code == FindingCode::LogCopyDamaged));
    assert_eq!((damaged(true), damaged(false)), (0, 0));
    assert!(are_whole());
    store.close().unwrap();

    // The store's log is mended from the last whole copy, and then the other copy.
    flip(&before[0].0, 100);
    fs::remove_dir_all(home.join("log")).unwrap();
    Store::rebuild(&home).unwrap().close().unwrap();
    assert!(are_whole());
}

#[test]
fn a_copy_of_the_log_that_is_gone_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let (home, _) = filled(dir.path());
    let store = Store::open(&home).unwrap();
    fs::remove_dir_all(dir.path().join("a/log")).unwrap();
    fs::create_dir(dir.path().join("a/log")).unwrap();
    store.scrub(b"", false, None, |_| {}).unwrap();
    let log = "log/0000000000000001.log";
    assert!(fs::read(dir.path().join("a").join(log)).unwrap() == fs::read(home.join(log)).unwrap());
}

/// Returns the newest snapshot in the store's directory, and its copies.
fn snapshots(dir: &Path) -> [PathBuf; 3] {
    ["store", "a", "b"].map(|place| {
        let names = fs::read_dir(dir.join(place).join("log")).unwrap();
        let is_one = |path: &PathBuf| path.extension().is_some_and(|end| end == "snapshot");
        names.map(|entry| entry.unwrap().path()).find(is_one).unwrap()
    })
}

/// A repair wrote the store's damaged snapshot over the whole copies.
#[test]
fn a_snapshot_that_is_damaged_or_gone_is_damage_of_the_log_and_not_of_its_copies() {
    for damage in [
        (|path: &Path| flip(path, 500)) as fn(&Path),
        |path| fs::write(path, b"").unwrap(),
        |path| fs::remove_file(path).unwrap(),
    ] {
        for everywhere in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().join("store");
            let (all, _) = at_rest_behind_a_snapshot(dir.path());
            let snapshots = snapshots(dir.path());
            let whole = fs::read(&snapshots[1]).unwrap();
            snapshots.iter().take(if everywhere { 3 } else { 1 }).for_each(|path| damage(path));
            let store = Store::open(&home).unwrap();
            for repair in [false, true] {
                let found = store.scrub(b"", repair, None, |_| {}).unwrap();
                assert_eq!((found.log_damaged, found.log_copies_damaged), (1, 0));
            }
            if !everywhere {
                assert!(snapshots[1..].iter().all(|copy| fs::read(copy).unwrap() == whole), "the copies are whole");
            }
            store.close().unwrap();
            let store = Store::rebuild(&home).unwrap();
            assert!(contents(&store) == all);
            goes_on(store, &home);
        }
    }
}

#[test]
fn a_damaged_snapshot_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("store");
    let (all, _) = at_rest_behind_a_snapshot(dir.path());
    let [own, lost, whole] = snapshots(dir.path());
    flip(&own, 500);
    fs::remove_file(&lost).unwrap();
    let store = Store::open(&home).unwrap();
    store.put_bytes(b"more", b"bytes", &replicated()).unwrap();
    store.sync().unwrap();
    assert!(!lost.exists());
    drop(store);
    let store = Store::rebuild(&home).unwrap();
    let after = contents(&store);
    assert!(all.iter().all(|(key, bytes)| after.get(key) == Some(bytes)) && after.len() == all.len() + 1);
    assert!(fs::read(own).unwrap() == fs::read(whole).unwrap());
    goes_on(store, &home);
}

/// A copy's snapshot was compared as far as both go, and its name was enough for a sync: a shortened one stayed, and when that copy was needed,
/// all was lost.
#[test]
fn a_shortened_snapshot_of_a_copy_is_damage_and_is_written_again() {
    for is_synced in [false, true] {
        for cut in [1, 2_000, u64::MAX] {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().join("store");
            let (all, _) = at_rest_behind_a_snapshot(dir.path());
            let [own, copy, _] = snapshots(dir.path());
            let length = fs::metadata(&copy).unwrap().len();
            fs::File::options().write(true).open(&copy).unwrap().set_len(length.saturating_sub(cut)).unwrap();
            let store = Store::open(&home).unwrap();
            if is_synced {
                store.put_bytes(b"k/0", &all[b"k/0".as_slice()], &replicated()).unwrap();
                store.sync().unwrap();
            } else {
                let damaged = |repair| store.scrub(b"", repair, None, |_| {}).unwrap().log_copies_damaged;
                assert_eq!((damaged(false), damaged(true)), (1, 0));
            }
            if own.exists() {
                assert!(fs::read(&own).unwrap() == fs::read(&copy).unwrap());
            }
            store.close().unwrap();
            // Only that copy is left.
            for lost in ["store/log", "store/catalog", "b/log"] {
                fs::remove_dir_all(dir.path().join(lost)).unwrap();
            }
            assert!(contents(&Store::rebuild(&home).unwrap()) == all);
        }
    }
}

#[test]
fn a_copy_of_the_log_that_cannot_be_read_is_left_out_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (home, all) = filled(dir.path());
    let name = "log/0000000000000001.log";
    let (own, bad, whole) = (home.join(name), dir.path().join("a").join(name), dir.path().join("b").join(name));
    make_unreadable(&bad);
    let store = Store::open(&home).unwrap();
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().log_copies_damaged, 1);
    store.close().unwrap();

    // Another copy is whole.
    let bytes = fs::read(&own).unwrap();
    fs::write(&own, &bytes[..bytes.len() - 5]).unwrap();
    assert!(refuses(Store::open(&home)).contains("rebuild"));
    let store = Store::rebuild(&home).unwrap();
    assert!(contents(&store) == all);
    store.close().unwrap();

    // None is left, but the one that cannot be read may be whole.
    make_unreadable(&bad);
    for log in [&own, &whole] {
        let bytes = fs::read(log).unwrap();
        fs::write(log, &bytes[..bytes.len() / 2]).unwrap();
    }
    fs::remove_dir_all(home.join("catalog")).unwrap();
    assert!(refuses(Store::rebuild(&home)).contains("cannot be read"));
    let said = Store::salvage(&home).err().unwrap().to_string();
    assert!(said.contains("move its folder elsewhere"), "{said}");
    fs::rename(dir.path().join("a/log"), dir.path().join("elsewhere")).unwrap();
    let (store, _) = Store::salvage(&home).unwrap();
    assert_eq!(contents(&store).len(), all.len());
}

/// No command worked until somebody moved the log away by hand, though catalog and copies were whole. And a scrub ended there, so that `health` went
/// on to say what the last whole one had found.
#[test]
fn an_unreadable_log_is_damage_and_is_mended_from_its_copies() {
    for ending in ["log", "snapshot"] {
        let dir = tempfile::tempdir().unwrap();
        let (all, _) = at_rest_behind_a_snapshot(dir.path());
        let home = dir.path().join("store");
        let last_of = |folder: &str| {
            let files = fs::read_dir(dir.path().join(folder)).unwrap().map(|entry| entry.unwrap().path());
            files.filter(|path| path.extension().is_some_and(|end| end == ending)).max().unwrap()
        };
        make_unreadable(&last_of("store/log"));
        if let Ok(store) = Store::open(&home) {
            let found = store.scrub(b"", false, None, |_| {}).unwrap();
            assert!(found.log_damaged > 0 && found.checked > 0, "{ending}: {found:?}");
        }
        let store = Store::rebuild(&home).unwrap();
        assert_eq!(contents(&store), all, "{ending}");
        assert!(home.join("log.damaged-1").exists(), "{ending}: the unreadable log is kept");
        let found = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((found.log_damaged, found.log_copies_damaged), (0, 0), "{ending}");
        store.close().unwrap();

        // Alone, it may have what the copies lack, so nothing is salvaged.
        make_unreadable(&last_of("store/log"));
        let log_copies = ["a/log", "b/log"].map(|copy| dir.path().join(copy));
        log_copies.iter().for_each(|copy| fs::remove_dir_all(copy).unwrap());
        fs::remove_dir_all(home.join("catalog")).unwrap();
        let refused = Store::rebuild(&home).map(drop).unwrap_err().to_string();
        assert!(refused.contains("cannot be read"), "{ending}: {refused}");
        let refused = Store::salvage(&home).map(drop).unwrap_err().to_string();
        assert!(refused.contains("cannot be read"), "{ending}: {refused}");
    }
}

/// `repair` said to run `repair`.
#[test]
fn an_unreadable_copy_of_the_log_is_written_again() {
    for ending in ["log", "snapshot"] {
        let dir = tempfile::tempdir().unwrap();
        let (all, _) = at_rest_behind_a_snapshot(dir.path());
        let home = dir.path().join("store");
        let files = fs::read_dir(dir.path().join("a/log")).unwrap().map(|entry| entry.unwrap().path());
        make_unreadable(&files.filter(|path| path.extension().is_some_and(|end| end == ending)).max().unwrap());
        let store = Store::open(&home).unwrap();
        assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().log_copies_damaged, 1, "{ending}");
        assert_eq!(store.scrub(b"", true, None, |_| {}).unwrap().log_copies_damaged, 0, "{ending}");
        store.close().unwrap();
        for folder in ["store/log", "store/catalog", "b/log"] {
            fs::remove_dir_all(dir.path().join(folder)).unwrap();
        }
        assert_eq!(contents(&Store::rebuild(&home).unwrap()), all, "{ending}");
    }
}
