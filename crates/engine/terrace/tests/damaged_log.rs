//! Commit logs that are damaged or lost. Version 0.1 took what it could still read for all that there was: any open
//! then swept the targets, and 18 MB of data were gone with exit code 0. Its tests used stores of less than 4 MiB, which the
//! sweep spared, and salvaged right away.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{hold_mover, replicated, store_of, tier};
use terrace::report::FindingCode;
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

/// The copy in a bucket was whole, and `rebuild` did not look there: `--salvage`, which it advised, then put a new log in its place, and all names
/// were gone.
#[cfg(feature = "services-fs")]
#[test]
fn a_log_that_only_a_bucket_has_is_taken_from_there() {
    const LOCAL_LOGS: [&str; 4] = ["store/log", "store/catalog", "disk/log", "disk/log-reach"];
    for (lost, salvage) in
        [(&["store/log", "store/catalog", "disk"][..], false), (&LOCAL_LOGS, false), (&LOCAL_LOGS, true)]
    {
        let dir = tempfile::tempdir().unwrap();
        let bucket = dir.path().join("bucket");
        let bucket =
            format!("[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n", bucket.display());
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), bucket]);
        for number in 0..9 {
            store.put_bytes(format!("{number}").as_bytes(), &noise(90_000, number), &replicated()).unwrap();
        }
        store.rename(b"8", b"renamed").unwrap();
        let home = store.dir().to_owned();
        store.close().unwrap();
        for path in lost.iter().map(|lost| dir.path().join(lost)) {
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }

        assert!(Store::open(&home).is_err());
        let store = if salvage {
            let (store, salvaged) = Store::salvage(&home).unwrap();
            assert!(!salvaged.log_was_damaged && salvaged.objects == 0, "{salvaged:?}");
            store
        } else {
            Store::rebuild(&home).unwrap()
        };
        assert!(store.get(b"renamed").unwrap() == noise(90_000, 8));
        assert_eq!(store.list(b"", None, 20).unwrap().len(), 9);
        assert!(!home.join("service-copies").exists());
    }
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

/// A flipped or missing piece of the copy in a bucket was found by nothing, until that copy was the last one.
#[cfg(feature = "services-fs")]
#[test]
fn a_damaged_copy_of_the_log_in_a_bucket_is_found_and_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    let tiers =
        format!("[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n", bucket.display());
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), tiers]);
    for number in 0..9 {
        store.put_bytes(format!("{number}").as_bytes(), &noise(9_000, number), &replicated()).unwrap();
        // Each sync adds a piece.
        store.sync().unwrap();
    }
    let home = store.dir().to_owned();
    let scrub = |repair| store.scrub(b"", repair, None, |_| {}).unwrap().log_copies_damaged;
    let pieces = || {
        let files = fs::read_dir(bucket.join("log")).unwrap().map(|entry| entry.unwrap().path());
        let mut pieces: Vec<PathBuf> =
            files.flat_map(|file| fs::read_dir(file).unwrap()).map(|entry| entry.unwrap().path()).collect();
        pieces.sort();
        pieces
    };
    assert_eq!(scrub(false), 0);
    let damages: [fn(&Path); 4] = [
        |piece| flip(piece, 50),
        |piece| fs::remove_file(piece).unwrap(),
        |piece| fs::write(piece, b"").unwrap(),
        |piece| fs::write(piece, &fs::read(piece).unwrap()[..60]).unwrap(),
    ];
    for (round, damage) in damages.iter().enumerate() {
        let all = pieces();
        damage(&all[if round % 2 == 0 { all.len() / 2 } else { all.len() - 1 }]);
        assert_eq!(scrub(false), 1, "{round}");
        assert_eq!(scrub(true), 0, "{round}");
        assert_eq!(scrub(false), 0, "{round}");
    }
    let all = contents(&store);
    store.close().unwrap();
    for lost in ["store/log", "store/catalog", "disk/log"] {
        fs::remove_dir_all(dir.path().join(lost)).unwrap();
    }
    assert_eq!(contents(&Store::rebuild(&home).unwrap()), all);
}
