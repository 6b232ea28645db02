//! The catalog's file follows what the store holds. 850,000 overwrites of one object of 100 bytes left 136 MB, a record for each
//! dead frame; what was freed stayed in the file for ever, since LMDB gives no page back, and neither deletion nor `rebuild` helped.
//! Tests looked at what the catalog says, never at how large it is. `TERRACE_OVERWRITES` sets how many there are (`make soak`).

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use common::{store_of, tier};
use terrace::catalog::{Change, Edit};
use terrace::{Attributes, PutOptions, Store};
use terrace_testkit::noise;

/// Objects that make a catalog of more than 10 MiB.
const OBJECT_COUNT: u64 = 25_000;

fn overwrites() -> u64 {
    std::env::var("TERRACE_OVERWRITES").map_or(2_000, |text| text.parse().unwrap())
}

fn data_bytes(home: &Path) -> u64 {
    fs::metadata(home.join("catalog/data.mdb")).unwrap().len()
}

/// The resident memory of this process, as the kernel writes it.
fn resident_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("no VmRSS").to_owned()
}

fn key(n: u64) -> Vec<u8> {
    format!("object/{n}/{}", "long".repeat(50)).into_bytes()
}

/// Commits all these edits at once, each by itself.
fn commit(store: &Store, edits: impl Iterator<Item = Edit>) {
    let changes: Vec<Change> = edits.map(Change::from).collect();
    store.catalog().commit_many(&changes).unwrap().into_iter().for_each(|commit| assert!(commit.is_ok()));
}

/// A closed store that has held many objects, and has 10 of them left.
fn mostly_emptied(dir: &Path) {
    let store = store_of(dir, &[tier(dir, "disk", &["a"], "")]);
    for n in 0..10 {
        store.put_bytes(&key(n), &noise(100, n), &PutOptions::default()).unwrap();
    }
    let put = |n: u64| Edit::Put {
        key: key(n),
        object: (1 << 40) + n,
        length: 0,
        want: 1,
        attributes: Attributes::now(),
        staged: false,
        extents: Vec::new(),
    };
    commit(&store, (10..OBJECT_COUNT).map(put));
    commit(&store, (10..OBJECT_COUNT).map(|n| Edit::Remove { key: key(n) }));
    store.close().unwrap();
}

fn assert_whole(store: &Store) {
    assert_eq!(store.list(b"", None, 100).unwrap().len(), 10);
    for n in 0..10 {
        assert!(store.get(&key(n)).unwrap() == noise(100, n), "object {n}");
    }
}

#[test]
fn frames_that_die_one_after_the_other_share_a_record_and_take_nothing_else_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a"], "")]);
    let (begun, overwrites, others) = (Instant::now(), overwrites(), 20);
    let put = |key: &[u8], n| store.put_bytes(key, &noise(100, n), &PutOptions::default());
    for n in 0..overwrites {
        put(b"overwritten", n).unwrap();
        if n < others {
            put(&key(n), n).unwrap();
        }
    }
    let dead = store.catalog().dead(0, u64::MAX, u64::MAX, usize::MAX).unwrap();
    // Not of the file: it also grows while a reader holds old pages, the more the slower the machine, and is shortened at a later opening.
    let (bytes, file) = (store.catalog().used_bytes().unwrap(), data_bytes(store.dir()));
    println!(
        "{overwrites} overwrites: {} records of dead frames, {bytes} bytes in {file} of data.mdb, {}",
        dead.len(),
        resident_memory()
    );
    // One for each second, each frame that lives between them, and each 4096 numbers of objects and writes.
    let most = begun.elapsed().as_secs() + 2 + others + overwrites * 2 / 4096;
    assert!(dead.len() as u64 <= most, "{} records of {overwrites} dead frames, not {most}", dead.len());
    assert!(bytes < 256 << 10, "{bytes} bytes after {overwrites} overwrites");
    store.sync().unwrap();
    store.reap_now().unwrap();
    assert!(store.catalog().dead(0, u64::MAX, u64::MAX, usize::MAX).unwrap().is_empty());
    assert!(store.get(b"overwritten").unwrap() == noise(100, overwrites - 1));
    for n in 0..others {
        assert!(store.get(&key(n)).unwrap() == noise(100, n), "object {n}");
    }
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
    // A catalog that is made from the log has the same records.
    let (home, before) = (store.dir().to_owned(), store.catalog().dump().unwrap());
    drop(store);
    let after = Store::rebuild(&home).unwrap().catalog().dump().unwrap();
    assert_eq!(common::differing(&before, &after), "");
}

#[test]
fn a_catalog_of_which_little_is_left_becomes_small_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    mostly_emptied(dir.path());
    let home = dir.path().join("store");
    let before = data_bytes(&home);
    assert!(before > 8 << 20, "{before}");
    // Somebody who has it open keeps the file, and a second one works beside him.
    let store = Store::open(&home).unwrap();
    assert!(data_bytes(&home) < 1 << 20, "{} bytes of {before}", data_bytes(&home));
    assert_whole(&store);
    store.put_bytes(&key(3), &noise(100, 3), &PutOptions::default()).unwrap();
    store.close().unwrap();
    assert_whole(&Store::open(&home).unwrap());
    fs::remove_dir_all(home.join("catalog")).unwrap();
    assert_whole(&Store::rebuild(&home).unwrap());
    assert_whole(&Store::open(&home).unwrap());
    assert!(data_bytes(&home) < 1 << 20, "{} bytes after a rebuild", data_bytes(&home));
}

/// Not a test: what dies in the test below.
#[test]
fn opener() {
    if let Some(home) = std::env::var_os("TERRACE_OPENED") {
        let _ = Store::open(Path::new(&home));
    }
}

#[test]
fn a_process_that_dies_while_it_makes_the_catalog_small_leaves_a_whole_one() {
    for point in ["catalog:shrunk", "catalog:named"] {
        let dir = tempfile::tempdir().unwrap();
        mostly_emptied(dir.path());
        let home = dir.path().join("store");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "opener"]).stdout(Stdio::null()).stderr(Stdio::null());
        let died = command.env("TERRACE_OPENED", &home).env("TERRACE_FAIL_POINT", point).status().unwrap();
        assert!(!died.success(), "{point} was not passed");
        assert_whole(&Store::open(&home).unwrap());
        assert!(data_bytes(&home) < 1 << 20, "{point}: {} bytes", data_bytes(&home));
        assert!(!home.join("catalog/unfinished").exists(), "{point}");
    }
}

/// A long frame begins on a page of its own. What died right before it shared its record although a small frame lived in the rest
/// of the page between them, and that one's bytes were given back with theirs. Frames of one size had been tried only.
#[test]
fn a_small_frame_before_a_long_one_outlives_both_its_neighbours() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a"], "")]);
    let one = PutOptions { replicas: Some(1), ..PutOptions::default() };
    for round in 0..20 {
        let live = format!("live/{round}").into_bytes();
        store.put_bytes(b"before", &noise(6000, round), &one).unwrap();
        store.put_bytes(&live, &noise(300, round), &one).unwrap();
        store.put_bytes(b"long", &noise(400_000, round), &one).unwrap();
        store.remove(b"before").unwrap();
        store.remove(b"long").unwrap();
    }
    store.sync().unwrap();
    store.reap_now().unwrap();
    for round in 0..20 {
        assert!(store.get(format!("live/{round}").as_bytes()).unwrap() == noise(300, round), "object {round}");
    }
}
