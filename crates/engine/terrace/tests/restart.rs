//! A restart of the machine after a clean close: the names of plain files may be outdated, and memory is empty.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::{replicated, store_of, tier};
use terrace::Store;
use terrace_testkit::noise;

/// The boot mark is made to tell of another boot: this text.
fn restart(home: &Path, mark: &str) {
    let before = fs::read_to_string(home.join("boot")).unwrap();
    assert!(before.starts_with("clean"), "{before}");
    fs::write(home.join("boot"), mark).unwrap();
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_below(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// The names of the files below `files/`.
fn names(target: &Path) -> Vec<String> {
    let root = target.join("files");
    files_below(&root).iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect()
}

/// A store with a file that was renamed and one that was deleted, closed as clean. Then the power cut undoes both names: no
/// sync covers them.
fn undone_names(dir: &Path) -> PathBuf {
    let store = store_of(dir, &[tier(dir, "pfs", &["a", "b"], "layout = 'plain'")]);
    for (key, length) in [("old", 100_000), ("deleted", 5_000), ("stays", 3_000_000)] {
        store.put_bytes(key.as_bytes(), &noise(length, length as u64), &replicated()).unwrap();
    }
    store.sync().unwrap();
    let kept = dir.join("kept");
    for target in ["a", "b"] {
        fs::create_dir_all(kept.join(target)).unwrap();
        fs::hard_link(dir.join(target).join("files/deleted"), kept.join(target).join("deleted")).unwrap();
    }
    store.rename(b"old", b"new/name").unwrap();
    store.remove(b"deleted").unwrap();
    // A close would also give back the file of the deleted object. File systems keep the order of that and of the loss of its name.
    store.sync().unwrap();
    drop(store);
    for target in ["a", "b"] {
        let files = dir.join(target).join("files");
        assert_eq!(names(&dir.join(target)), ["new/name", "stays"]);
        fs::rename(files.join("new/name"), files.join("old")).unwrap();
        fs::remove_dir(files.join("new")).unwrap();
        fs::hard_link(kept.join(target).join("deleted"), files.join("deleted")).unwrap();
    }
    dir.join("store")
}

/// Names of plain files were compared with the catalog only where that was made from the log. A store that is closed as clean
/// keeps its catalog over a power cut, and no sync covers the names: `sync` ended well, a renamed object had its old name, and
/// the file of a deleted one was there again. The tests of power cuts did not look at names, as some were wrong.
#[test]
fn names_that_a_power_cut_undid_are_put_right_once() {
    for mark in ["clean", "clean of-another-boot"] {
        let dir = tempfile::tempdir().unwrap();
        let home = undone_names(dir.path());
        let catalog = || fs::metadata(home.join("catalog/data.mdb")).unwrap().ino();
        let before = catalog();
        restart(&home, mark);
        let store = Store::open(&home).unwrap();
        assert_eq!(catalog(), before, "the catalog is trusted");
        for target in ["a", "b"] {
            assert_eq!(names(&dir.path().join(target)), ["new/name", "stays"], "{mark}");
        }
        assert!(store.get(b"new/name").unwrap() == noise(100_000, 100_000));
        assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
        store.close().unwrap();
        // In the same boot nothing is looked at again.
        let name = dir.path().join("a/files/stays");
        fs::rename(&name, dir.path().join("aside")).unwrap();
        drop(Store::open(&home).unwrap());
        assert!(!name.exists());
    }
}

#[test]
fn names_on_a_target_that_is_away_are_put_right_once_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let home = undone_names(dir.path());
    restart(&home, "clean of-another-boot");
    let (here, elsewhere) = (dir.path().join("b"), dir.path().join("elsewhere"));
    fs::rename(&here, &elsewhere).unwrap();
    drop(Store::open(&home).unwrap());
    assert_eq!(names(&dir.path().join("a")), ["new/name", "stays"]);
    fs::rename(&elsewhere, &here).unwrap();
    assert_eq!(names(&here), ["deleted", "old", "stays"]);
    drop(Store::open(&home).unwrap());
    assert_eq!(names(&here), ["new/name", "stays"]);
}

/// A volatile directory on a disk keeps its marker over a power cut, and may lose the bytes of its files. Its replicas counted
/// as there until a scrub.
#[test]
fn a_volatile_directory_whose_files_are_empty_after_a_restart_is_filled_again() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000, 1);
    let tiers = [tier(dir.path(), "scratch", &["scratch"], "persistent = false"), tier(dir.path(), "disk", &["a"], "")];
    let store = store_of(dir.path(), &tiers);
    store.put_bytes(b"k", &bytes, &replicated()).unwrap();
    store.close().unwrap();
    let home = dir.path().join("store");
    // All is there: nothing is made again.
    restart(&home, "clean of-another-boot");
    let store = Store::open(&home).unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
    store.close().unwrap();
    for file in files_below(&dir.path().join("scratch/segments")) {
        let file = fs::File::options().write(true).open(file).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(0).and_then(|()| file.set_len(length)).unwrap();
    }
    restart(&home, "clean of-another-boot");
    let store = Store::open(&home).unwrap();
    assert_eq!(store.status().unwrap().owed, 3);
    store.sync().unwrap();
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad), (6, 0));
}

/// Who finds memory empty while the store is open makes it a target again, and died or ended without a word of what had been
/// there: the next opener found the marker, and nothing was owed.
#[test]
fn memory_that_is_emptied_while_the_store_is_open_is_filled_again() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000, 1);
    let store = common::new_store(dir.path());
    store.put_bytes(b"k", &bytes, &replicated()).unwrap();
    store.close().unwrap();
    let (home, ram) = (dir.path().join("store"), dir.path().join("ram"));
    for sees in [true, false] {
        let store = Store::open(&home).unwrap();
        assert_eq!(store.status().unwrap().owed, 0);
        fs::remove_dir_all(&ram).unwrap();
        assert!(store.get(b"k").unwrap() == bytes);
        if sees {
            store.status().unwrap();
            // What comes after that is not forgotten.
            store.put_bytes(b"later", &bytes, &replicated()).unwrap();
            assert!(store.status().unwrap().owed <= 3);
        }
        drop(store);
        let store = Store::open(&home).unwrap();
        store.sync().unwrap();
        let found = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((found.checked, found.bad, found.lost), (12, 0, 0));
        store.close().unwrap();
    }
}

/// The plain file of a put that a power cut took, in a store that was never synced, stayed: where the log has no commits nothing
/// was swept, as the log may be lost.
#[test]
fn a_plain_file_that_no_commit_names_goes_where_no_commit_was_ever_durable() {
    let dir = tempfile::tempdir().unwrap();
    let tiers = [tier(dir.path(), "pfs", &["a"], "layout = 'plain'")];
    drop(store_of(dir.path(), &tiers));
    let home = dir.path().join("store");
    let (plain, files) = (dir.path().join("a/plain"), dir.path().join("a/files"));
    for (mark, stays) in [("of-another-boot", false), ("", true)] {
        fs::create_dir_all(&plain).and_then(|()| fs::create_dir_all(&files)).unwrap();
        fs::write(plain.join("8000000000000007"), noise(5_000, 1)).unwrap();
        fs::hard_link(plain.join("8000000000000007"), files.join("key")).unwrap();
        fs::remove_dir_all(home.join("catalog")).unwrap();
        fs::write(home.join("boot"), mark).unwrap();
        // Without a word of a power cut the log may be lost.
        assert_eq!(Store::open(&home).is_err(), stays, "{mark:?}");
        assert_eq!(files_below(&plain).is_empty(), !stays, "{mark:?}");
        assert_eq!(names(&dir.path().join("a")).is_empty(), !stays, "{mark:?}");
    }
}
