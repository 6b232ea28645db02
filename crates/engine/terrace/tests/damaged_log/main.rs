//! Commit logs that are damaged or lost. Version 0.1 took what it could still read for all that there was: any open
//! then swept the targets, and 18 MB of data were gone with exit code 0. Its tests used stores of less than 4 MiB, which the
//! sweep spared, and salvaged right away.

#![allow(clippy::unwrap_used)]

#[cfg(feature = "services-fs")]
mod buckets;
#[path = "../common/mod.rs"]
mod common;
mod copies;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{hold_mover, replicated, store_of, tier};
use terrace::{Ack, Error, PutOptions, Store};
use terrace_testkit::noise;

/// More than a sweep leaves alone.
const OBJECT_COUNT: u64 = 18;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(store: &Store) -> Contents {
    let all = store.list(b"", None, 1000).unwrap();
    all.into_iter().map(|(key, _)| (key.clone(), store.get(&key).unwrap())).collect()
}

/// Makes a closed store of 18 MB on two persistent targets, both with a copy of the log. Returns it with its content.
fn filled(dir: &Path) -> (PathBuf, Contents) {
    let store = store_of(dir, &[tier(dir, "disk", &["a", "b"], "")]);
    for number in 0..OBJECT_COUNT {
        let key = format!("run/{number}");
        store.put_bytes(key.as_bytes(), &noise(1_000_000, number + 1), &replicated()).unwrap();
    }
    let all = contents(&store);
    let home = store.dir().to_owned();
    store.close().unwrap();
    (home, all)
}

/// All that lies in the segments, by file.
fn segments(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = ["a", "b"].map(|target| dir.join(target).join("segments"));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    entries.map(|entry| entry.unwrap().path()).map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    let folders = ["store", "a", "b"].map(|place| dir.join(place).join("log"));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "log")).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0xff;
    fs::write(path, bytes).unwrap();
}

/// A file that cannot be read, as on a bad block. A directory in its place does the same here.
fn make_unreadable(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
}

fn refuses(opened: terrace::Result<Store>) -> String {
    let error = opened.map(|store| store.status().unwrap()).expect_err("the log is damaged");
    assert!(matches!(error, Error::LogDamaged(_)), "{error}");
    error.to_string()
}

#[test]
fn a_lost_log_is_no_empty_store() {
    let dir = tempfile::tempdir().unwrap();
    let (home, all) = filled(dir.path());
    let before = segments(dir.path());
    for folder in ["store/log", "store/catalog", "a/log", "b/log"] {
        fs::remove_dir_all(dir.path().join(folder)).unwrap();
    }
    // However often, and by whichever way.
    for _ in 0..2 {
        assert!(refuses(Store::open(&home)).contains("terrace rebuild"));
        assert!(refuses(Store::rebuild(&home)).contains("--salvage"));
    }
    assert!(segments(dir.path()) == before, "the targets were touched");
    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert_eq!((salvaged.objects, salvaged.log_was_damaged), (OBJECT_COUNT, true));
    let mut found: Vec<Vec<u8>> = contents(&store).into_values().collect();
    let mut wanted: Vec<Vec<u8>> = all.into_values().collect();
    found.sort();
    wanted.sort();
    assert!(found == wanted);
    goes_on(store, &home);
}

/// A store is one again: it takes objects, opens, and rebuilds to the same.
fn goes_on(store: Store, home: &Path) {
    store.put_bytes(b"later", &noise(2_000_000, 99), &replicated()).unwrap();
    let all = contents(&store);
    store.close().unwrap();
    let store = Store::open(home).unwrap();
    assert!(contents(&store) == all);
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
    drop(store);
    let store = Store::rebuild(home).unwrap();
    assert!(contents(&store) == all);
    drop(store);
    let _ = fs::remove_dir_all(home.join("log"));
    let _ = fs::remove_dir_all(home.join("catalog"));
    assert!(contents(&Store::rebuild(home).unwrap()) == all, "the copies of the log lead there as well");
}

#[test]
fn a_log_damaged_everywhere_in_the_middle_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (home, all) = filled(dir.path());
    let before = segments(dir.path());
    fs::remove_dir_all(home.join("catalog")).unwrap();
    for log in logs(dir.path()) {
        flip(&log, fs::metadata(&log).unwrap().len() as usize / 2);
    }
    refuses(Store::open(&home));
    let said = refuses(Store::rebuild(&home));
    assert!(said.contains("commits are missing"), "{said}");
    assert!(segments(dir.path()) == before, "the targets were touched");
    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert!(salvaged.log_was_damaged && salvaged.missing_commits > 0, "{salvaged:?}");
    let found = contents(&store);
    assert!(found.keys().any(|key| key.starts_with(b"run/")), "what the log still tells keeps its name");
    assert!(all.values().all(|bytes| found.values().any(|other| other == bytes)), "all bytes are there");
    goes_on(store, &home);
}

/// An acknowledged replica means that each target's copy of the log names it. A process appends to the copies that it has
/// compared once: other processes, new files of the log and a copy that was put in place of another must not mislead it.
#[test]
fn each_copy_of_the_log_holds_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let one = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
    let home = one.dir().to_owned();
    let two = Store::open(&home).unwrap();
    let copies_are_the_log = || {
        for log in logs(dir.path()).iter().filter(|log| log.starts_with(&home)) {
            let bytes = fs::read(log).unwrap();
            for target in ["a", "b"] {
                let copy = dir.path().join(target).join("log").join(log.file_name().unwrap());
                assert!(fs::read(&copy).unwrap() == bytes, "{} differs", copy.display());
            }
        }
    };
    for number in 0..30 {
        let store = if number % 3 == 0 { &two } else { &one };
        store.put_bytes(format!("run/{number}").as_bytes(), &noise(5_000, number + 1), &replicated()).unwrap();
        // A sync mark of the background would be in the log before it is in the copies.
        let mover = hold_mover(dir.path());
        copies_are_the_log();
        drop(mover);
        let copies = dir.path().join("a/log");
        match number {
            10 => fs::remove_dir_all(&copies).unwrap(),
            20 => {
                // A copy of an earlier time is put back.
                let name = fs::read_dir(&copies).unwrap().next().unwrap().unwrap().file_name();
                let bytes = fs::read(copies.join(&name)).unwrap();
                fs::write(copies.join("old"), &bytes[..bytes.len() / 2]).unwrap();
                fs::rename(copies.join("old"), copies.join(&name)).unwrap();
            }
            _ => {}
        }
    }
    let all = contents(&one);
    one.close().unwrap();
    two.close().unwrap();
    for folder in ["log", "catalog"] {
        fs::remove_dir_all(home.join(folder)).unwrap();
    }
    assert!(contents(&Store::rebuild(&home).unwrap()) == all);
}

#[test]
fn copies_damaged_in_different_places_make_up_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (home, all) = filled(dir.path());
    fs::remove_dir_all(home.join("catalog")).unwrap();
    for (part, log) in logs(dir.path()).iter().enumerate() {
        let length = fs::metadata(log).unwrap().len() as usize;
        flip(log, length * (part + 1) / 5);
        flip(log, length * (part + 1) / 5 + length / 15);
    }
    let store = Store::open(&home).unwrap();
    assert!(contents(&store) == all);
    goes_on(store, &home);
}

#[test]
fn a_good_catalog_makes_up_for_lost_logs() {
    for emptied in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (home, all) = filled(dir.path());
        for log in logs(dir.path()) {
            if emptied { fs::write(log, b"").unwrap() } else { fs::remove_file(log).unwrap() }
        }
        let said = refuses(Store::open(&home));
        assert!(said.contains("terrace rebuild"), "{said}");
        let store = Store::rebuild(&home).unwrap();
        assert!(contents(&store) == all);
        goes_on(store, &home);
    }
}

/// With a tier in memory that a reboot had emptied, `rebuild` noted by a commit what memory had lost, in the log that was not
/// there, and failed for ever. The tests had persistent tiers alone.
#[test]
fn a_good_catalog_makes_up_for_lost_logs_where_memory_was_emptied_too() {
    for salvage in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let tiers =
            [tier(dir.path(), "ram", &["ram"], "persistent = false"), tier(dir.path(), "disk", &["a", "b"], "")];
        let store = store_of(dir.path(), &tiers);
        for number in 0..3 {
            let key = format!("run/{number}");
            let options = PutOptions { ack: Some(Ack::Durable), ..replicated() };
            store.put_bytes(key.as_bytes(), &noise(1_000_000, number + 1), &options).unwrap();
        }
        let (home, all) = (store.dir().to_owned(), contents(&store));
        store.sync().unwrap();
        store.close().unwrap();
        for folder in ["store/log", "a/log", "b/log", "ram"] {
            let _ = fs::remove_dir_all(dir.path().join(folder));
        }
        fs::create_dir(dir.path().join("ram")).unwrap();
        refuses(Store::open(&home));
        let store = if salvage { Store::salvage(&home).unwrap().0 } else { Store::rebuild(&home).unwrap() };
        assert!(contents(&store) == all);
        goes_on(store, &home);
    }
}

/// Four damaged bytes in the header of a page of the catalog ended `rebuild` with SIGBUS, although the log was whole: it opened the
/// catalog to see whether the log lacks anything.
#[test]
fn a_rebuild_looks_at_a_damaged_catalog_before_it_is_mapped() {
    for at in [10, 12, 14] {
        let dir = tempfile::tempdir().unwrap();
        let (home, all) = filled(dir.path());
        let data = home.join("catalog/data.mdb");
        let mut bytes = fs::read(&data).unwrap();
        bytes.chunks_mut(4096).skip(2).for_each(|page| page[at..at + 4].fill(0xff));
        fs::write(&data, bytes).unwrap();
        let said = Store::open(&home).map(drop).unwrap_err().to_string();
        assert!(said.contains("terrace rebuild"), "{said}");
        let store = Store::rebuild(&home).unwrap();
        assert!(contents(&store) == all);
        goes_on(store, &home);
    }
}

#[test]
fn a_change_of_a_newer_version_is_not_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (home, all) = filled(dir.path());
    let store = Store::open(&home).unwrap();
    let (tail, folder) = (store.catalog().tail().unwrap(), home.join("log"));
    // One commit of one edit of a kind that is not known.
    let log = terrace::log::Log::open(&folder, store.id()).unwrap();
    drop(store);
    log.append(tail, 0, 1, &[1, 99], &mut Vec::new()).unwrap();
    fs::remove_dir_all(home.join("catalog")).unwrap();
    for _ in 0..2 {
        let said = Store::open(&home).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("newer terrace"), "{said}");
        let said = Store::rebuild(&home).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains("newer terrace"), "{said}");
    }
    // Without it all is there.
    let path = folder.join(format!("{:016x}.log", tail.file));
    fs::File::options().write(true).open(path).unwrap().set_len(tail.position).unwrap();
    assert!(contents(&Store::open(&home).unwrap()) == all);
}

#[test]
fn an_empty_or_lost_boot_mark_is_not_trusted() {
    for mark in [Some(&b""[..]), Some(b"\xff\xfe"), None] {
        let dir = tempfile::tempdir().unwrap();
        let (home, all) = filled(dir.path());
        match mark {
            Some(bytes) => fs::write(home.join("boot"), bytes).unwrap(),
            None => fs::remove_file(home.join("boot")).unwrap(),
        }
        // A catalog that must not be opened: it is made from the log.
        fs::write(home.join("catalog").join("data.mdb"), b"torn").unwrap();
        assert!(contents(&Store::open(&home).unwrap()) == all);
    }
}

#[test]
fn a_store_is_clean_only_where_a_mark_covers_all() {
    let dir = tempfile::tempdir().unwrap();
    let (home, _) = filled(dir.path());
    let is_clean = || fs::read_to_string(home.join("boot")).unwrap().starts_with("clean");
    assert!(is_clean());
    let store = Store::open(&home).unwrap();
    assert!(!is_clean());
    store.rename(b"run/0", b"moved").unwrap();
    drop(store);
    assert!(!is_clean(), "the rename is in no file that was synced");
    let store = Store::open(&home).unwrap();
    store.put_bytes(b"more", b"bytes", &PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() }).unwrap();
    store.close().unwrap();
    assert!(is_clean());
}

/// The first commit of a store was taken for a sync mark: after one `put` the store was closed as clean, and a power cut left an
/// object without any of its bytes, in a trusted catalog. Stores of tests begin with more than one commit.
#[test]
fn a_store_of_one_commit_is_not_clean() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
    let mark = store.dir().join("boot");
    store.put_bytes(b"first", b"bytes", &PutOptions { replicas: Some(1), ..PutOptions::default() }).unwrap();
    drop(store);
    assert!(!fs::read_to_string(mark).unwrap().starts_with("clean"));
}

#[test]
fn a_log_without_its_last_record_lacks_commits_and_is_no_other_log() {
    let dir = tempfile::tempdir().unwrap();
    let (home, all) = filled(dir.path());
    for log in logs(dir.path()) {
        let bytes = fs::read(&log).unwrap();
        fs::write(&log, &bytes[..bytes.len() - 4]).unwrap();
    }
    assert!(refuses(Store::open(&home)).contains("rebuild"));
    fs::remove_dir_all(home.join("catalog")).unwrap();
    let said = refuses(Store::rebuild(&home));
    assert!(said.contains("commits are missing") && said.contains("--salvage"), "{said}");
    let (store, salvaged) = Store::salvage(&home).unwrap();
    assert!(salvaged.log_was_damaged && contents(&store) == all, "{salvaged:?}");
}

/// Makes a store whose newest snapshot has all commits. Returns its content, and all files of the log and its copies.
fn at_rest_behind_a_snapshot(dir: &Path) -> (Contents, Vec<PathBuf>) {
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer_of_snapshots", "--nocapture"])
        .env("TERRACE_WRITER", dir)
        // A short log has snapshots.
        .env("TERRACE_LOG_FILE", "3000")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let store = Store::open(&dir.join("store")).unwrap();
    let all = contents(&store);
    store.close().unwrap();
    (all, logs(dir))
}

/// Puts objects until a snapshot has all commits, in a process of its own with a short log.
#[test]
fn writer_of_snapshots() {
    let Ok(dir) = std::env::var("TERRACE_WRITER") else { return };
    let dir = Path::new(&dir);
    drop(store_of(dir, &[tier(dir, "disk", &["a", "b"], "")]));
    // The note in the directory has the last commit.
    let has_all = || {
        let note = fs::read_to_string(dir.join("store/log-reach")).unwrap();
        let last = note.lines().find_map(|line| line.strip_prefix("record ")).unwrap();
        dir.join(format!("store/log/{}.snapshot", &last[..16])).exists()
    };
    for number in 0.. {
        let store = Store::open(&dir.join("store")).unwrap();
        store.put_bytes(format!("k/{number}").as_bytes(), &noise(5_000, number), &replicated()).unwrap();
        store.close().unwrap();
        if has_all() {
            return;
        }
    }
}

/// Rebuilds said that nothing was missing, and left a store that no command opened, or whose log each scrub called damaged.
#[test]
fn a_log_that_is_damaged_before_its_snapshot_everywhere_begins_again() {
    for keeps_catalog in [true, false] {
        for damage in [
            (|path: &Path| fs::write(path, b"").unwrap()) as fn(&Path),
            |path| fs::remove_file(path).unwrap(),
            |path| flip(path, 30),
            |path| flip(path, 80.min(fs::metadata(path).unwrap().len() as usize - 1)),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().join("store");
            let (all, logs) = at_rest_behind_a_snapshot(dir.path());
            logs.iter().for_each(|log| damage(log));
            if !keeps_catalog {
                fs::remove_dir_all(home.join("catalog")).unwrap();
            }
            let store = Store::rebuild(&home).unwrap();
            assert!(contents(&store) == all);
            let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
            assert_eq!((scrubbed.log_damaged, scrubbed.log_copies_damaged), (0, 0));
            goes_on(store, &home);
        }
    }
}
