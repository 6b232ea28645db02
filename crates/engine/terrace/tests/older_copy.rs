//! An older copy of a store's directory, which is used while the targets are away, and then meets them.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use terrace::{Config, Error, PutOptions, Store};

const TARGET_NAMES: [&str; 2] = ["d1", "d2"];

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A store with an object in both histories, one that only the newer one has, and the older directory in its place, which has gone on
/// without the targets.
fn diverged(root: &Path) -> PathBuf {
    let home = root.join("store");
    let tier = |name: &&str| {
        format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}/{name}']\n", root.display())
    };
    let tiers: String = TARGET_NAMES.iter().map(tier).collect();
    let config = Config::parse(&format!("[store]\nreplicas = {{ default = 2 }}\n{tiers}"), "test").unwrap();
    let store = Store::init(&home, &config).unwrap();
    store.put_bytes(b"a", &[1; 9000], &PutOptions::default()).unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    copy(&home, &root.join("older"));
    let store = Store::open(&home).unwrap();
    store.put_bytes(b"precious", &[2; 90_000], &PutOptions::default()).unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    fs::rename(&home, root.join("newer")).unwrap();
    fs::rename(root.join("older"), &home).unwrap();
    for name in TARGET_NAMES {
        fs::rename(root.join(name), root.join(format!("{name}-away"))).unwrap();
    }
    let store = Store::open(&home).unwrap();
    for _ in 0..20 {
        store.rename(b"a", b"b").unwrap();
        store.rename(b"b", b"a").unwrap();
    }
    drop(store);
    home
}

fn bring_back(root: &Path) {
    for name in TARGET_NAMES {
        fs::rename(root.join(format!("{name}-away")), root.join(name)).unwrap();
    }
}

fn refused(home: &Path) -> String {
    match Store::open(home) {
        Err(Error::LogDamaged(reason)) => reason,
        other => unreachable!("{:?}", other.map(drop)),
    }
}

#[test]
fn an_older_copy_of_the_directory_frees_nothing_of_the_newer_one() {
    let root = tempfile::tempdir().unwrap();
    let home = diverged(root.path());
    bring_back(root.path());
    let reason = refused(&home);
    assert!(reason.contains("older copy") && reason.contains("terrace rebuild"), "{reason}");
    assert!(matches!(Store::rebuild(&home), Err(Error::LogDamaged(_))), "no history is preferred unasked");
    refused(&home);
    // As the message says.
    fs::rename(home.join("log"), root.path().join("log-of-older")).unwrap();
    let store = Store::rebuild(&home).unwrap();
    assert_eq!(store.get(b"precious").unwrap(), [2; 90_000]);
    assert_eq!(store.get(b"a").unwrap(), [1; 9000]);
    assert_eq!(store.scrub(b"", false, None, |_| ()).unwrap().bad, 0);
}

#[test]
fn a_target_of_a_newer_copy_that_comes_back_while_the_store_is_open_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let home = diverged(root.path());
    let store = Store::open(&home).unwrap();
    bring_back(root.path());
    // Its sync marks would replace the targets' notes, and its copies of the log theirs.
    let _ = store.mark_placed();
    store.rename(b"a", b"c").unwrap();
    let _ = store.mark_placed();
    drop(store);
    refused(&home);
    fs::rename(&home, root.path().join("older")).unwrap();
    fs::rename(root.path().join("newer"), &home).unwrap();
    let store = Store::open(&home).unwrap();
    assert_eq!(store.get(b"precious").unwrap(), [2; 90_000]);
    assert_eq!(store.get(b"a").unwrap(), [1; 9000]);
}

#[test]
fn a_target_that_was_away_for_some_marks_is_taken_back() {
    let root = tempfile::tempdir().unwrap();
    let home = diverged(root.path());
    // The newer directory goes on instead, without one target.
    fs::rename(&home, root.path().join("older")).unwrap();
    fs::rename(root.path().join("newer"), &home).unwrap();
    fs::rename(root.path().join("d1-away"), root.path().join("d1")).unwrap();
    let store = Store::open(&home).unwrap();
    for number in 0..5 {
        store.put_bytes(format!("k{number}").as_bytes(), &[3; 100], &PutOptions::default()).unwrap();
        let _ = store.mark_placed();
    }
    drop(store);
    fs::rename(root.path().join("d2-away"), root.path().join("d2")).unwrap();
    let store = Store::open(&home).unwrap();
    store.sync().unwrap();
    assert_eq!(store.get(b"precious").unwrap(), [2; 90_000]);
}
