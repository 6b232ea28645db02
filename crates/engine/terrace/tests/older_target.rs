//! Targets that are older copies of themselves, such as restored backups, alone and with the store's directory.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{store_of, tier};
use terrace::{Ack, Error, PutOptions, Store};
use terrace_testkit::noise;

fn durable() -> PutOptions {
    PutOptions { ack: Some(Ack::Durable), replicas: Some(2), ..PutOptions::default() }
}

#[cfg(feature = "services-fs")]
fn bucket_tier(dir: &Path) -> String {
    format!("[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}/bucket']\n", dir.display())
}

fn copy_of(folder: &Path) -> PathBuf {
    let copy = folder.with_extension("copy");
    assert!(Command::new("cp").arg("-a").args([folder, &copy]).status().unwrap().success());
    copy
}

/// Puts a copy in the place of a folder.
fn restore(copy: &Path, folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
    fs::rename(copy, folder).unwrap();
}

/// Puts and removes objects, with several sync marks.
fn go_on(store: &Store) {
    store.remove(b"first1").unwrap();
    store.sync().unwrap();
    // Its frames are given back now.
    store.reap_now().unwrap();
    for seed in 10..14 {
        store.put_bytes(format!("later{seed}").as_bytes(), &noise(200_000, seed), &durable()).unwrap();
        store.remove(b"passing").or_else(|_| store.put_bytes(b"passing", b"x", &durable()).map(drop)).unwrap();
        store.sync().unwrap();
    }
}

fn put_first(store: &Store) {
    for seed in 0..4 {
        store.put_bytes(format!("first{seed}").as_bytes(), &noise(200_000, seed), &durable()).unwrap();
    }
    store.sync().unwrap();
}

/// Writes to a new store, copies these folders, writes more, and puts the copies in their places.
fn write_and_restore(store: Store, folders: &[&Path]) {
    write_and_restore_beside(store, folders, || ());
}

/// The same, with a step before the copies are put in their places.
fn write_and_restore_beside(store: Store, folders: &[&Path], before: impl FnOnce()) {
    let home = store.dir().to_owned();
    put_first(&store);
    store.close().unwrap();
    let copies: Vec<PathBuf> = folders.iter().map(|folder| copy_of(folder)).collect();
    let store = Store::open(&home).unwrap();
    go_on(&store);
    store.close().unwrap();
    before();
    for (copy, folder) in copies.iter().zip(folders) {
        restore(copy, folder);
    }
}

/// Drains a tier, and reads all objects: what is told as safe needs no replica there.
fn is_whole_without(store: &Store, tier: &str) {
    store.sync().unwrap();
    let lost: Vec<Vec<u8>> = store.find_lost().unwrap();
    store.drain(tier).unwrap();
    store.sync().unwrap();
    for (key, object) in store.list(b"", None, 1000).unwrap() {
        let shown = String::from_utf8_lossy(&key).into_owned();
        match store.get(&key) {
            Ok(bytes) => assert_eq!(bytes.len() as u64, object.length, "{shown}"),
            Err(error) => assert!(lost.contains(&key), "{shown}: {error}"),
        }
    }
}

/// A disk was restored from its backup, and the rest of the store had gone on. `sync` called all durable, and `health` safe, until a read
/// failed: nobody compared the target's note about the log with what had been written there.
#[test]
fn an_older_copy_of_a_target_is_compared_with_the_catalog() {
    for layout in ["frames", "plain"] {
        let dir = tempfile::tempdir().unwrap();
        let more = format!("layout = '{layout}'\n");
        let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], &more), tier(dir.path(), "b", &["b"], "")]);
        let put = |store: &Store, key: &str, seed: u64, replicas: u8| {
            // The planner may prefer the other target, if this one was slow a moment ago.
            let tiers = (replicas == 1).then(|| vec!["a".to_owned()]);
            let options = PutOptions { replicas: Some(replicas), tiers, ..durable() };
            store.put_bytes(key.as_bytes(), &noise(500_000, seed), &options).unwrap();
        };
        put(&store, "before", 1, 2);
        put(&store, "changed", 2, 2);
        let home = store.dir().to_owned();
        store.close().unwrap();
        let (target, copy) = (dir.path().join("a"), copy_of(&dir.path().join("a")));
        let store = Store::open(&home).unwrap();
        put(&store, "both", 3, 2);
        put(&store, "changed", 4, 2);
        put(&store, "only", 5, 1);
        store.close().unwrap();
        restore(&copy, &target);

        let store = Store::open(&home).unwrap();
        assert_eq!(store.find_lost().unwrap(), [b"only"], "{layout}");
        assert!(store.status().unwrap().owed >= 2, "{layout}");
        store.sync().unwrap();
        let found = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((found.bad, found.lost), (1, 1), "{layout}: {found:?}");
        for (key, seed) in [("before", 1), ("both", 3), ("changed", 4)] {
            assert!(store.get(key.as_bytes()).unwrap() == noise(500_000, seed), "{layout}: {key}");
        }
        store.remove(b"only").unwrap();
        store.close().unwrap();
        let store = Store::open(&home).unwrap();
        assert!(store.find_lost().unwrap().is_empty() && store.status().unwrap().owed == 0, "{layout}");
        store.close().unwrap();
        // What is there now is as good as what was there.
        assert!(!home.join("emptied-0").exists());
        assert_eq!(fs::read(target.join("log-reach")).unwrap(), fs::read(home.join("reach-0")).unwrap());
    }
}

/// A bucket was restored from its backup, and the store had gone on. `sync` called all durable and `health` safe, and a drain of the other
/// tier then dropped the only good replicas: the notes about the log are on directories only.
#[cfg(feature = "services-fs")]
#[test]
fn an_older_copy_of_a_bucket_is_compared_with_the_catalog() {
    for is_open in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let bucket = dir.path().join("bucket");
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), bucket_tier(dir.path())]);
        let home = store.dir().to_owned();
        store.put_bytes(b"before", &noise(300_000, 1), &durable()).unwrap();
        store.close().unwrap();
        let older = copy_of(&bucket);
        let store = Store::open(&home).unwrap();
        for seed in 2..5 {
            store.put_bytes(format!("after{seed}").as_bytes(), &noise(300_000, seed), &durable()).unwrap();
        }
        let store = match is_open {
            true => store.sync().map(|()| store).unwrap(),
            false => store.close().and_then(|()| Store::open(&home)).unwrap(),
        };
        restore(&older, &bucket);

        // The first that looks at the target is the drain.
        store.drain("disk").unwrap();
        store.sync().unwrap();
        for seed in 2..5 {
            assert!(store.get(format!("after{seed}").as_bytes()).unwrap() == noise(300_000, seed), "{is_open}: {seed}");
        }
        assert!(store.get(b"before").unwrap() == noise(300_000, 1), "{is_open}");
        let found = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((found.bad, found.lost), (0, 0), "{is_open}: {found:?}");
        store.close().unwrap();
        // It is as it should be now, and stays so.
        let store = Store::open(&home).unwrap();
        store.check_targets().unwrap();
        assert_eq!(store.status().unwrap().owed, 0, "{is_open}");
        assert!(!home.join("object-1/emptied").exists(), "{is_open}");
    }
}

/// The store's directory and a target came from one backup, and the bucket was current: only the bucket knew better. The store opened with the names
/// of the backup, and what had been done since was gone for good once a new copy of the log took the place of the bucket's.
#[cfg(feature = "services-fs")]
#[test]
fn a_directory_that_is_older_than_a_bucket_is_refused_and_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), bucket_tier(dir.path())]);
    let (home, disk) = (store.dir().to_owned(), dir.path().join("disk"));
    write_and_restore(store, &[&home, &disk]);

    // However often.
    for _ in 0..2 {
        match Store::open(&home) {
            Err(Error::LogDamaged(reason)) => assert!(reason.contains("an older copy of itself"), "{reason}"),
            other => unreachable!("{:?}", other.map(drop)),
        }
    }
    let store = Store::rebuild(&home).unwrap();
    is_whole_without(&store, "disk");
    assert!(store.get(b"first1").is_err(), "it was removed after the backup");
    for (key, seed) in [("first0", 0), ("first2", 2), ("first3", 3), ("later10", 10), ("later13", 13)] {
        assert!(store.get(key.as_bytes()).unwrap() == noise(200_000, seed), "{key}");
    }
    store.close().unwrap();
    let store = Store::open(&home).unwrap();
    store.check_targets().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
}

/// Renamed, removed, empty and copied objects have no frames of their own that tell of them.
#[cfg(feature = "services-fs")]
#[test]
fn names_that_only_a_bucket_knows_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let memory = tier(dir.path(), "ram", &["ram"], "persistent = false");
    let store = store_of(dir.path(), &[memory, bucket_tier(dir.path())]);
    let home = store.dir().to_owned();
    put_first(&store);
    store.close().unwrap();
    let older = copy_of(&home);
    let store = Store::open(&home).unwrap();
    store.rename(b"first0", b"renamed").unwrap();
    store.remove(b"first1").unwrap();
    store.put_bytes(b"empty", b"", &durable()).unwrap();
    store.close().unwrap();
    restore(&older, &home);

    assert!(matches!(Store::open(&home), Err(Error::LogDamaged(_))));
    let store = Store::rebuild(&home).unwrap();
    let keys: Vec<Vec<u8>> = store.list(b"", None, 10).unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&b"empty"[..], b"first2", b"first3", b"renamed"]);
    assert!(store.get(b"renamed").unwrap() == noise(200_000, 0));
}

/// The commits of both are kept until somebody chooses. If the older directory had more of them than it had lost, its log took the place of the
/// bucket's, and what had been durable was gone.
#[cfg(feature = "services-fs")]
#[test]
fn a_directory_that_parted_from_a_bucket_is_refused_until_somebody_chooses() {
    for (parted, keeps_newer) in [(1, true), (1, false), (40, true), (40, false)] {
        let dir = tempfile::tempdir().unwrap();
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), bucket_tier(dir.path())]);
        let (home, disk, bucket) = (store.dir().to_owned(), dir.path().join("disk"), dir.path().join("bucket"));
        let (away, elsewhere) = (dir.path().join("away"), dir.path().join("elsewhere"));
        write_and_restore_beside(store, &[&home, &disk], || fs::rename(&bucket, &away).unwrap());
        let store = Store::open(&home).unwrap();
        let one = PutOptions { replicas: Some(1), ..durable() };
        for number in 0..parted {
            store.put_bytes(format!("parted{number}").as_bytes(), &noise(9_000, number), &one).unwrap();
        }
        store.close().unwrap();
        fs::rename(&away, &bucket).unwrap();

        // It is found when the bucket is used.
        if let Ok(store) = Store::open(&home) {
            let _ = store.sync();
        }
        let refused = |opened: terrace::Result<()>| match opened {
            Err(Error::LogDamaged(reason)) => reason,
            other => unreachable!("{other:?}"),
        };
        for _ in 0..2 {
            assert!(refused(Store::open(&home).map(drop)).contains("older copy"));
            let tried = [Store::rebuild(&home).map(drop), Store::salvage(&home).map(drop)];
            for reason in tried.map(refused) {
                assert!(reason.contains("goes on differently") && reason.contains("fs:"), "{reason}");
            }
        }
        // As it says.
        fs::create_dir(&elsewhere).unwrap();
        if keeps_newer {
            for (number, path) in
                [&home, &disk].iter().flat_map(|at| ["log", "log-reach"].map(|name| at.join(name))).enumerate()
            {
                fs::rename(path, elsewhere.join(number.to_string())).unwrap();
            }
            let store = Store::rebuild(&home).unwrap();
            assert!(store.get(b"later13").unwrap() == noise(200_000, 13));
            assert!(store.get(b"parted0").is_err());
            store.sync().unwrap();
            store.close().unwrap();
        } else {
            for name in ["log", "terrace-synced"] {
                fs::rename(bucket.join(name), elsewhere.join(name)).unwrap();
            }
            let store = Store::rebuild(&home).unwrap();
            store.sync().unwrap();
            assert!(store.get(b"first0").unwrap() == noise(200_000, 0));
            assert!(store.get(b"later13").is_err());
            assert!(store.get(b"parted0").unwrap() == noise(9_000, 0));
            store.close().unwrap();
        }
        let store = Store::open(&home).unwrap();
        store.sync().unwrap();
        assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().lost, 0, "{parted} {keeps_newer}");
    }
}

/// A disk and a bucket were restored with the store's directory, which then went on beside a newer bucket that was away. After the choice of the newer
/// state, objects of the same size lay at the same places, with the same numbers in the headers of their frames: reads returned the bytes of
/// other objects, and nothing told. Of two buckets, only the disk was found to be older.
#[cfg(feature = "services-fs")]
#[test]
fn what_an_older_directory_has_written_is_not_taken_for_what_the_newer_one_has() {
    // The older directory makes fewer commits than the newer one, about as many, and more.
    for parted in [2, 9, 40] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let second = bucket_tier(dir.path()).replace("bucket", "second");
        let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["disk"], ""), bucket_tier(dir.path()), second]);
        let home = store.dir().to_owned();
        let all = PutOptions { replicas: Some(3), ..durable() };
        let put = |store: &Store, name: &str, count: u64, seed: u64| {
            for number in 0..count {
                store.put_bytes(format!("{name}{number}").as_bytes(), &noise(70_000, seed + number), &all).unwrap();
            }
            store.sync().unwrap();
        };
        put(&store, "first", 3, 0);
        store.close().unwrap();
        let copies = [&home, &at("disk"), &at("bucket")].map(|folder| copy_of(folder));
        let store = Store::open(&home).unwrap();
        put(&store, "newer", 6, 100);
        store.close().unwrap();
        fs::rename(at("second"), at("away")).unwrap();
        for (copy, folder) in copies.iter().zip([&home, &at("disk"), &at("bucket")]) {
            restore(copy, folder);
        }
        let store = Store::open(&home).unwrap();
        for number in 0..parted {
            let two = PutOptions { replicas: Some(2), ..durable() };
            store.put_bytes(format!("parted{number}").as_bytes(), &noise(70_000, 200 + number), &two).unwrap();
        }
        // It says that one is away.
        store.sync().unwrap_err();
        store.close().unwrap();
        fs::rename(at("away"), at("second")).unwrap();

        let Err(Error::LogDamaged(reason)) = Store::rebuild(&home) else { unreachable!("{parted}: not refused") };
        assert!(reason.contains("goes on differently") && reason.contains("second"), "{reason}");
        // As it says.
        for (folder, names) in
            [("store", ["log", "log-reach"]), ("disk", ["log", "log-reach"]), ("bucket", ["log", "terrace-synced"])]
        {
            let folder = if folder == "store" { home.clone() } else { at(folder) };
            for name in names {
                fs::rename(folder.join(name), folder.join(format!("{name}.elsewhere"))).unwrap();
            }
        }
        let store = Store::rebuild(&home).unwrap();
        store.sync().unwrap();
        store.close().unwrap();
        // Each target alone has all, or says that it lacks it.
        for alone in ["disk", "bucket", "second"] {
            let others: Vec<&str> = ["disk", "bucket", "second"].into_iter().filter(|name| *name != alone).collect();
            others.iter().for_each(|name| fs::rename(at(name), at(&format!("{name}.away"))).unwrap());
            let store = Store::open(&home).unwrap();
            for number in 0..6 {
                let bytes = store.get(format!("newer{number}").as_bytes()).unwrap();
                assert!(bytes == noise(70_000, 100 + number), "{parted}, {alone}: newer{number}");
            }
            assert!(store.get(b"first0").unwrap() == noise(70_000, 0), "{parted}, {alone}");
            store.close().unwrap();
            others.iter().for_each(|name| fs::rename(at(&format!("{name}.away")), at(name)).unwrap());
        }
    }
}

/// The files below a folder, by their paths in it.
fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => {
                found.extend(files_below(&entry.path()).iter().map(|file| Path::new(&entry.file_name()).join(file)))
            }
            false => drop(found.insert(entry.file_name().into())),
        }
    }
    found
}

fn allocated(folder: &Path) -> u64 {
    let blocks = |file: PathBuf| fs::metadata(folder.join(file)).unwrap().blocks();
    files_below(folder).into_iter().map(blocks).sum::<u64>() * 512
}

/// An older copy of a target had frames of objects that were removed since, and names of plain files, which stayed readable. Nothing gave
/// them back, and `destroy` left the names.
#[test]
fn what_an_older_copy_of_a_target_has_too_much_is_given_back() {
    for layout in ["frames", "plain"] {
        let dir = tempfile::tempdir().unwrap();
        let more = format!("layout = '{layout}'\n");
        let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], &more), tier(dir.path(), "b", &["b"], "")]);
        let (home, target) = (store.dir().to_owned(), dir.path().join("a"));
        for (key, seed) in [("gone/deep", 1), ("moved", 2), ("changed", 3)] {
            store.put_bytes(key.as_bytes(), &noise(300_000, seed), &durable()).unwrap();
        }
        store.close().unwrap();
        let copy = copy_of(&target);
        let store = Store::open(&home).unwrap();
        store.remove(b"gone/deep").unwrap();
        store.rename(b"moved", b"renamed").unwrap();
        store.put_bytes(b"changed", &noise(300_000, 4), &durable()).unwrap();
        store.sync().unwrap();
        store.reap_now().unwrap();
        store.close().unwrap();
        let needed = allocated(&target);
        restore(&copy, &target);
        fs::create_dir_all(target.join("files/gone")).unwrap();
        fs::write(target.join("files/gone/of-another"), b"theirs").unwrap();

        let store = Store::open(&home).unwrap();
        assert!(!target.join("files/gone/deep").exists(), "{layout}");
        store.sync().unwrap();
        for (key, seed) in [("renamed", 2), ("changed", 4)] {
            assert!(store.get(key.as_bytes()).unwrap() == noise(300_000, seed), "{layout}: {key}");
        }
        store.close().unwrap();
        // The older bytes of a changed object go after the newer ones are there.
        let store = Store::open(&home).unwrap();
        let found = store.scrub(b"", false, None, |_| {}).unwrap();
        assert_eq!((found.bad, found.lost), (0, 0), "{layout}: {found:?}");
        let now = allocated(&target);
        assert!(now < needed + (100 << 10), "{layout}: {now} bytes, of {needed}");
        let names = match layout {
            "plain" => vec!["changed", "gone/of-another", "renamed"],
            _ => vec!["gone/of-another"],
        };
        assert_eq!(files_below(&target.join("files")), names.into_iter().map(PathBuf::from).collect());
        store.close().unwrap();
        assert!(!home.join("sweep-due-0").exists() && !home.join("names-due-0").exists());
        let kept = Store::destroy(&home, true).unwrap().kept;
        assert_eq!(kept, [target.join("files/gone/of-another")], "{layout}");
    }
}

/// A segment without frames in the catalog is deleted with the frames of the older copy.
#[test]
fn a_segment_that_only_an_older_copy_of_a_target_has_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], ""), tier(dir.path(), "b", &["b"], "")]);
    let (home, target) = (store.dir().to_owned(), dir.path().join("a"));
    put_first(&store);
    store.close().unwrap();
    let copy = copy_of(&target);
    let store = Store::open(&home).unwrap();
    (0..4).for_each(|n| store.remove(format!("first{n}").as_bytes()).unwrap());
    store.sync().unwrap();
    store.close().unwrap();
    // No process writes to the segment any more, so it can be deleted.
    let store = Store::open(&home).unwrap();
    store.reap_now().unwrap();
    assert!(files_below(&target.join("segments")).is_empty());
    store.close().unwrap();
    restore(&copy, &target);
    assert!(!files_below(&target.join("segments")).is_empty());

    drop(Store::open(&home).unwrap());
    assert!(files_below(&target.join("segments")).is_empty());
}

/// Much that an older copy has too much stays, with its names, until the user says that nothing is missing.
#[test]
fn much_that_an_older_copy_of_a_target_has_too_much_stays_unless_it_is_forced() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], "layout = 'plain'\n")]);
    let (home, target) = (store.dir().to_owned(), dir.path().join("a"));
    let one = PutOptions { replicas: Some(1), ..durable() };
    store.put_bytes(b"much", &noise(66 << 20, 1), &one).unwrap();
    store.close().unwrap();
    let copy = copy_of(&target);
    let store = Store::open(&home).unwrap();
    store.remove(b"much").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    store.put_bytes(b"more", b"bytes", &one).unwrap();
    store.close().unwrap();
    restore(&copy, &target);

    let file = target.join("files/much");
    let store = Store::open(&home).unwrap();
    assert!(file.exists());
    assert!(matches!(store.prune(false), Err(Error::TooMuch { .. })));
    assert!(fs::read(&file).unwrap() == noise(66 << 20, 1));
    assert!(store.prune(true).unwrap() > 66 << 20);
    assert!(!file.exists() && allocated(&target.join("plain")) < 1 << 20);
    assert!(!home.join("sweep-due-0").exists());
}

/// The store's directory and one of two targets came from one backup. A rebuild took the log from the other one, and the notes of the
/// restored ones agreed: a drain dropped the only good replicas.
#[test]
fn a_rebuild_compares_targets_that_are_behind_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], ""), tier(dir.path(), "b", &["b"], "")]);
    let (home, target) = (store.dir().to_owned(), dir.path().join("a"));
    write_and_restore(store, &[&home, &target]);

    assert!(Store::open(&home).is_err(), "the log on the other target goes on");
    Store::rebuild(&home).unwrap();
    let store = Store::open(&home).unwrap();
    is_whole_without(&store, "b");
    for seed in 10..14 {
        assert!(store.get(format!("later{seed}").as_bytes()).unwrap() == noise(200_000, seed), "{seed}");
    }
}

/// The directory was restored and rebuilt, and a target was restored later: the notes of what had been written to the targets had come back with
/// the directory, and `sync` called all durable. The other tests restored the target before the rebuild.
#[test]
fn a_target_that_is_restored_after_a_rebuild_is_compared_with_the_catalog() {
    for (layout, is_away) in [("frames", false), ("plain", false), ("frames", true)] {
        let dir = tempfile::tempdir().unwrap();
        let more = format!("layout = '{layout}'\n");
        let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], &more), tier(dir.path(), "b", &["b"], "")]);
        let (home, target) = (store.dir().to_owned(), dir.path().join("a"));
        put_first(&store);
        store.close().unwrap();
        let (older_home, older_target) = (copy_of(&home), copy_of(&target));
        let store = Store::open(&home).unwrap();
        go_on(&store);
        store.close().unwrap();

        restore(&older_home, &home);
        let aside = dir.path().join("aside");
        if is_away {
            fs::rename(&target, &aside).unwrap();
        }
        Store::rebuild(&home).unwrap().close().unwrap();
        if is_away {
            fs::rename(&aside, &target).unwrap();
        }
        restore(&older_target, &target);
        is_whole_without(&Store::open(&home).unwrap(), "b");
    }
}

/// A target was restored while a process had the store open. The next sync of that process wrote its note about the log to the older copy,
/// which hid what had happened; what it wrote went to files that were gone.
#[test]
fn a_target_that_is_replaced_while_the_store_is_open_is_noticed_by_the_next_sync() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "a", &["a"], ""), tier(dir.path(), "b", &["b"], "")]);
    let (home, target) = (store.dir().to_owned(), dir.path().join("a"));
    put_first(&store);
    let copy = copy_of(&target);
    store.put_bytes(b"between", &noise(200_000, 7), &durable()).unwrap();
    store.sync().unwrap();
    restore(&copy, &target);

    let refused = store.put_bytes(b"after", &noise(200_000, 8), &durable()).and_then(|_| store.mark_placed());
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("older copy of itself"), "{refused}");
    store.put_bytes(b"last", &noise(200_000, 9), &durable()).unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    let store = Store::open(&home).unwrap();
    is_whole_without(&store, "b");
    for (key, seed) in [("between", 7), ("after", 8), ("last", 9)] {
        assert!(store.get(key.as_bytes()).unwrap() == noise(200_000, seed), "{key}");
    }
}
