//! A bucket outlives its node: the copies of the log on a service, and the stores that are made again from them.

#![cfg(feature = "services-fs")]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{replicated, store_of, tier};
use terrace::report::{FindingCode, TierState};
use terrace::tier::TargetSettings;
use terrace::{Error, PutOptions, RebuildFrom, Store};
use terrace_testkit::{Redis, noise};

const BY_FORCE: RebuildFrom = RebuildFrom { force: true, salvage: false };
const WITH_SALVAGE: RebuildFrom = RebuildFrom { force: true, salvage: true };

fn new_store(dir: &Path) -> Store {
    let bucket = format!(
        "[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n",
        dir.join("bucket").display()
    );
    store_of(dir, &[tier(dir, "disk", &["disk"], ""), bucket])
}

fn bucket(dir: &Path) -> TargetSettings {
    TargetSettings { service: Some("fs".into()), ..TargetSettings::at(dir.join("bucket")) }
}

fn on_disk_only() -> PutOptions {
    PutOptions { tiers: Some(vec!["disk".into()]), replicas: Some(1), ..replicated() }
}

fn object(n: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("o/{n}").into_bytes(), noise(1000 + n as usize * 7001 % 90_000, n))
}

fn put(store: &Store, n: u64, options: &PutOptions) {
    let (key, bytes) = object(n);
    store.put_bytes(&key, &bytes, options).unwrap();
}

fn check(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        let (key, bytes) = object(n);
        assert!(store.get(&key).unwrap() == bytes, "object {n}");
    }
}

/// The node is lost, with its disk.
fn burn(dir: &Path) {
    fs::remove_dir_all(dir.join("store")).unwrap();
    fs::remove_dir_all(dir.join("disk")).unwrap();
}

fn rebuilt(dir: &Path, name: &str, asked: RebuildFrom) -> Result<(Store, terrace::report::Remade), Error> {
    Store::rebuild_from(&dir.join(name), &bucket(dir), asked)
}

fn refused(dir: &Path, asked: RebuildFrom) -> String {
    let error = rebuilt(dir, "refused", asked).map(drop).unwrap_err().to_string();
    assert!(!dir.join("refused/store").exists() && !dir.join("refused/log").exists(), "nothing is left of it");
    error
}

/// The pieces of the log in the bucket, in order.
fn pieces(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in fs::read_dir(dir.join("bucket/log")).unwrap() {
        found.extend(fs::read_dir(folder.unwrap().path()).unwrap().map(|piece| piece.unwrap().path()));
    }
    found.sort();
    found
}

fn copy_folder(from: &Path, to: &Path) {
    common::run("cp", &["-a"], &[from, to]).unwrap();
}

#[test]
fn a_bucket_outlives_its_node() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = new_store(dir);
    (0..5).for_each(|n| put(&store, n, &replicated()));
    put(&store, 5, &on_disk_only());
    store.remove(&object(0).0).unwrap();
    store.rename(&object(1).0, b"renamed").unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    burn(dir);

    let error = refused(dir, RebuildFrom::default());
    assert!(error.contains("--force") && error.contains("may still be in use"), "{error}");
    let (store, remade) = rebuilt(dir, "new", BY_FORCE).unwrap();
    assert_eq!((remade.objects, remade.lost), (5, vec!["o/5".to_owned()]));
    assert_eq!(remade.targets.len(), 1);
    assert_eq!((remade.targets[0].before.clone(), &remade.targets[0].tier[..]), (dir.join("disk"), "disk"));
    check(&store, 2..5);
    assert!(store.get(b"renamed").unwrap() == object(1).1);
    assert!(matches!(store.stat(b"o/0"), Err(Error::NotFound { .. })), "it was removed");
    assert!(matches!(store.get(b"o/5"), Err(Error::Unreadable { is_lost: true, .. })));

    // It works on as any store, and is made again like any.
    store.remove(b"o/5").unwrap();
    put(&store, 6, &replicated());
    store.sync().unwrap();
    for extent in store.locate(&object(3).0).unwrap().extents {
        let tiers: Vec<&str> = extent.replicas.iter().map(|replica| &replica.tier[..]).collect();
        assert!(tiers.contains(&"disk") && tiers.contains(&"bucket"), "{tiers:?}");
    }
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.bad, found.lost, found.away), (0, 0, 0));
    store.close().unwrap();
    check(&Store::open(&dir.join("new")).unwrap(), 2..5);
    fs::remove_dir_all(dir.join("new")).unwrap();
    let (store, remade) = rebuilt(dir, "newer", BY_FORCE).unwrap();
    assert_eq!((remade.objects, remade.lost.len()), (5, 0));
    check(&store, [2, 3, 4, 6]);
}

/// The machine was only away: its store must not free what the new one names.
#[test]
fn a_store_that_comes_back_changes_nothing_in_a_bucket_that_was_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let old = new_store(dir);
    (0..4).for_each(|n| put(&old, n, &replicated()));
    old.sync().unwrap();
    // It is in use while the bucket is taken over.
    let disk = dir.join("elsewhere");
    copy_folder(&dir.join("disk"), &disk);
    let text = fs::read_to_string(dir.join("bucket/terrace.toml")).unwrap();
    let lost = dir.join("lost").display().to_string();
    fs::write(dir.join("bucket/terrace.toml"), text.replace(&dir.join("disk").display().to_string(), &lost)).unwrap();
    let (new, _) = rebuilt(dir, "new", BY_FORCE).unwrap();
    (0..4).for_each(|n| old.remove(&object(n).0).unwrap());
    old.sync().unwrap_err();
    old.reap_now().unwrap();
    assert_eq!(old.status().unwrap().tiers[1].state, TierState::Away);
    drop(old);
    let old = Store::open(&dir.join("store")).unwrap();
    let error = old.sync().unwrap_err().to_string();
    assert!(error.contains("is used by another directory"), "{error}");
    drop(old);
    check(&new, 0..4);
    put(&new, 4, &replicated());
    new.sync().unwrap();
    new.close().unwrap();
    check(&Store::open(&dir.join("new")).unwrap(), 0..5);
}

/// Directories had no mark: `destroy` of the lost store emptied those that both had.
#[test]
fn a_store_that_comes_back_changes_nothing_in_a_directory_that_was_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let old = new_store(dir);
    (0..4).for_each(|n| put(&old, n, &replicated()));
    put(&old, 4, &on_disk_only());
    old.sync().unwrap();
    let error = refused(dir, BY_FORCE);
    assert!(error.contains("is in use by another copy"), "{error}");
    old.close().unwrap();
    let (new, remade) = rebuilt(dir, "new", BY_FORCE).unwrap();
    assert_eq!((remade.targets.len(), remade.lost.len()), (0, 0), "the disk is there");
    put(&new, 5, &replicated());
    new.sync().unwrap();
    // A process of the old one that comes in while no process of the new one runs.
    new.close().unwrap();
    let old = Store::open(&dir.join("store")).unwrap();
    assert!(old.status().unwrap().tiers.iter().all(|tier| tier.state == TierState::Away));
    let error = old.sync().unwrap_err().to_string();
    assert!(error.contains("is used by another directory"), "{error}");
    (0..5).for_each(|n| old.remove(&object(n).0).unwrap());
    old.put_bytes(b"late", b"late", &on_disk_only()).unwrap_err();
    old.reap_now().unwrap();
    drop(old);
    Store::destroy(&dir.join("store"), true).unwrap();
    let new = Store::open(&dir.join("new")).unwrap();
    check(&new, 0..6);
    let found = new.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.bad, found.lost, found.away), (0, 0, 0));
}

/// A directory with the two files alone may be an old one. It took the targets over from the one that was in use, and `destroy` emptied them.
#[test]
fn a_directory_that_is_written_again_by_hand_takes_its_targets_only_when_their_marks_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let home = dir.join("store");
    let store = new_store(dir);
    (0..3).for_each(|n| put(&store, n, &replicated()));
    store.sync().unwrap();
    store.close().unwrap();
    let kept = ["store", "terrace.toml"].map(|name| (name, fs::read(home.join(name)).unwrap()));
    let write_again = || {
        fs::remove_dir_all(&home).unwrap();
        fs::create_dir_all(home.join("log")).unwrap();
        kept.iter().for_each(|(name, bytes)| fs::write(home.join(name), bytes).unwrap());
    };
    write_again();
    let error = Store::rebuild(&home).map(drop).unwrap_err().to_string();
    assert!(error.contains("is used by another directory") && error.contains("disk/terrace-owner"), "{error}");
    Store::destroy(&home, true).unwrap();
    fs::create_dir(&home).unwrap();
    write_again();
    for mark in ["disk/terrace-owner", "bucket/terrace-owner"] {
        fs::remove_file(dir.join(mark)).unwrap();
    }
    let store = Store::rebuild(&home).unwrap();
    check(&store, 0..3);
    put(&store, 3, &replicated());
    store.sync().unwrap();
    assert!(store.status().unwrap().tiers.iter().all(|tier| tier.state == TierState::Ok));
}

/// `sync` succeeded, `health` was safe, and a store that was made from the bucket was silently older.
#[test]
fn a_bucket_that_takes_no_copy_of_the_log_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = new_store(dir);
    put(&store, 0, &replicated());
    store.sync().unwrap();
    let behind = |store: &Store| {
        let found = store.health().unwrap().findings;
        found.iter().any(|finding| finding.code == FindingCode::LogCopyBehind)
    };
    assert!(!behind(&store));
    // Nothing can be written below a file.
    fs::rename(dir.join("bucket/log"), dir.join("log")).unwrap();
    fs::write(dir.join("bucket/log"), "").unwrap();
    put(&store, 1, &on_disk_only());
    store.sync().unwrap();
    assert!(behind(&store));
    store.close().unwrap();
    let store = Store::open(&dir.join("store")).unwrap();
    assert!(behind(&store), "other processes know");
    fs::remove_file(dir.join("bucket/log")).unwrap();
    fs::rename(dir.join("log"), dir.join("bucket/log")).unwrap();
    drop(store);
    let store = Store::open(&dir.join("store")).unwrap();
    store.sync().unwrap();
    assert!(!behind(&store));
}

#[test]
fn pieces_that_are_lost_or_damaged_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = new_store(dir);
    for n in 0..6 {
        put(&store, n, &replicated());
        store.sync().unwrap();
    }
    store.close().unwrap();
    burn(dir);
    let whole = dir.join("whole");
    copy_folder(&dir.join("bucket"), &whole);
    let reset = || {
        fs::remove_dir_all(dir.join("bucket")).unwrap();
        copy_folder(&whole, &dir.join("bucket"));
    };
    let all = pieces(dir);
    assert!(all.len() >= 6, "{all:?}");
    let last = all.len() - 1;
    for lost in [0, 1, last / 2, last] {
        fs::remove_file(&all[lost]).unwrap();
        let error = refused(dir, BY_FORCE);
        assert!(error.contains("commits are missing") && error.contains("--salvage"), "{lost}: {error}");
        assert!(
            lost == last || error.contains("A piece is missing of 0000000000000001.log from byte"),
            "{lost}: {error}"
        );
        reset();
        let mut bytes = fs::read(&all[lost]).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&all[lost], bytes).unwrap();
        let error = refused(dir, BY_FORCE);
        assert!(error.contains("commits are missing") && error.contains("--salvage"), "{lost}: {error}");
        reset();
    }
    // What the log still tells stays, and the rest is offered.
    fs::remove_file(&all[last / 2]).unwrap();
    let (store, remade) = rebuilt(dir, "new", WITH_SALVAGE).unwrap();
    let salvaged = remade.salvaged.unwrap();
    assert!(salvaged.log_was_damaged && salvaged.objects > 0, "{salvaged:?}");
    assert_eq!(store.list(b"", None, 100).unwrap().len(), 6);
    check(&store, [0]);
    store.sync().unwrap();
    store.close().unwrap();
    fs::remove_dir_all(dir.join("new")).unwrap();
    let (store, remade) = rebuilt(dir, "newer", BY_FORCE).unwrap();
    assert_eq!((remade.objects, remade.lost.len()), (6, 0), "the log begins again behind a snapshot");
    check(&store, [0]);
}

#[test]
fn an_older_copy_of_a_bucket_is_noticed_where_another_target_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = new_store(dir);
    put(&store, 0, &replicated());
    store.sync().unwrap();
    copy_folder(&dir.join("bucket"), &dir.join("older"));
    put(&store, 1, &replicated());
    store.sync().unwrap();
    store.close().unwrap();
    fs::remove_dir_all(dir.join("store")).unwrap();
    fs::rename(dir.join("bucket"), dir.join("newest")).unwrap();
    fs::rename(dir.join("older"), dir.join("bucket")).unwrap();
    // The disk has a whole copy of the log. Without it, its note tells.
    fs::rename(dir.join("disk/log"), dir.join("log")).unwrap();
    let error = refused(dir, BY_FORCE);
    assert!(error.contains("commits are missing"), "{error}");
    fs::rename(dir.join("log"), dir.join("disk/log")).unwrap();
    let (store, remade) = rebuilt(dir, "new", BY_FORCE).unwrap();
    assert_eq!((remade.objects, remade.lost.len(), remade.targets.len()), (2, 0, 0));
    check(&store, 0..2);
}

/// Bytes that are gone were named by the next scrub only: `rebuild --from` exited with 0.
#[test]
fn bytes_that_are_gone_from_a_bucket_or_a_disk_are_named_at_once() {
    for of_bucket in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let store = new_store(dir);
        put(&store, 0, &replicated());
        put(&store, 1, &on_disk_only());
        store.sync().unwrap();
        store.close().unwrap();
        fs::remove_dir_all(dir.join("store")).unwrap();
        let gone = if of_bucket { dir.join("bucket/segments") } else { dir.join("disk/segments") };
        fs::read_dir(&gone).unwrap().for_each(|entry| {
            let path = entry.unwrap().path();
            if of_bucket { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        });
        let (store, remade) = rebuilt(dir, "new", BY_FORCE).unwrap();
        let lost: Vec<&str> = if of_bucket { vec![] } else { vec!["o/1"] };
        assert_eq!(remade.lost, lost, "{of_bucket}");
        store.sync().unwrap_or_else(|error| assert!(!of_bucket, "{error}"));
        check(&store, 0..1);
    }
}

/// Only the lost directory knew what a service without listings holds. A new one has an empty ledger, and all replicas there seemed to be gone.
#[cfg(feature = "services-redis")]
#[test]
fn replicas_on_a_service_that_cannot_list_are_asked_for() {
    let Some(redis) = Redis::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let on_redis = format!(
        "[[tier]]\nname = 'redis'\nkind = 'object'\nservice = 'redis'\ntargets = ['/terrace']\noptions = {{ endpoint = '{}' }}\n",
        redis.endpoint()
    );
    let on_bucket = format!(
        "[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n",
        dir.join("bucket").display()
    );
    let store = store_of(dir, &[on_redis, on_bucket]);
    (0..4).for_each(|n| put(&store, n, &replicated()));
    store.sync().unwrap();
    store.close().unwrap();
    fs::remove_dir_all(dir.join("store")).unwrap();
    let (store, remade) = rebuilt(dir, "new", BY_FORCE).unwrap();
    assert_eq!((remade.lost.len(), store.status().unwrap().owed), (0, 0));
    fs::rename(dir.join("bucket"), dir.join("away")).unwrap();
    check(&store, 0..4);
}

/// An empty target took the place of a disk that was there, with the only replicas of objects, if a digit of its marker was damaged. The
/// configuration then named the empty one, and nothing found the disk again.
#[test]
fn a_disk_with_a_damaged_marker_is_not_gone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = new_store(dir);
    put(&store, 0, &on_disk_only());
    store.sync().unwrap();
    store.close().unwrap();
    fs::remove_dir_all(dir.join("store")).unwrap();
    let marker = dir.join("disk/terrace-target");
    let whole = fs::read_to_string(&marker).unwrap();
    let (id, rest) = (&whole["store ".len()..][..16], &whole["store ".len() + 16..]);
    let other = format!("store {:016x}{rest}", u64::from_str_radix(id, 16).unwrap() ^ 1);
    for damaged in [Some(other), Some(whole.replace("target 0", "target 7")), None] {
        match &damaged {
            Some(text) => fs::write(&marker, text).unwrap(),
            None => fs::remove_file(&marker).unwrap(),
        }
        for asked in [BY_FORCE, WITH_SALVAGE] {
            let error = refused(dir, asked);
            assert!(error.contains(&format!("the two lines `store {id}` and `target 0`")), "{error}");
        }
    }
    fs::write(&marker, whole).unwrap();
    let (store, remade) = rebuilt(dir, "new", BY_FORCE).unwrap();
    assert_eq!((remade.lost.len(), remade.targets.len()), (0, 0));
    check(&store, 0..1);
}

#[test]
fn a_bucket_without_a_store_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let error = refused(dir, BY_FORCE);
    assert!(error.contains("no store has a target there"), "{error}");
    let store = new_store(dir);
    let error = rebuilt(dir, "store", BY_FORCE).map(drop).unwrap_err().to_string();
    assert!(error.contains("no copy of the store's log") || error.contains("a store is here already"), "{error}");
    drop(store);
}

/// Puts objects and syncs, in a process of its own that tests kill. Notes the numbers of those that were synced.
#[test]
fn writer() {
    let Ok(setting) = std::env::var("TERRACE_WRITER") else { return };
    let fields: Vec<&str> = setting.splitn(3, ' ').collect();
    let (first, count): (u64, u64) = (fields[0].parse().unwrap(), fields[1].parse().unwrap());
    let dir = Path::new(fields[2]);
    let mut journal = File::options().create(true).append(true).open(dir.join("journal")).unwrap();
    let store = Store::open(&dir.join("store")).unwrap();
    for n in first..first + count {
        put(&store, n, &replicated());
        if n % 3 == 2 {
            store.remove(&object(n - 1).0).unwrap();
        }
        store.sync().unwrap();
        store.reap_now().unwrap();
        // At once, because other processes append to the same file.
        journal.write_all(format!("{n}\n").as_bytes()).unwrap();
    }
    store.close().unwrap();
}

fn spawn(dir: &Path, first: u64, count: u64, fail_point: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer", "--nocapture"]).stdout(Stdio::null());
    command.stderr(File::create(dir.join(format!("stderr-{first}"))).unwrap());
    // Small enough that there are several files of the log, and snapshots.
    command.env("TERRACE_LOG_FILE", "2000");
    command.env("TERRACE_WRITER", format!("{first} {count} {}", dir.display()));
    if let Some(point) = fail_point {
        command.env("TERRACE_FAIL_POINT", point);
    }
    command.spawn().unwrap()
}

/// Makes a store again in a process of its own, which a test kills.
#[test]
fn rebuilder() {
    let Ok(dir) = std::env::var("TERRACE_REBUILDER") else { return };
    rebuilt(Path::new(&dir), "new", BY_FORCE).map(drop).unwrap();
}

#[test]
fn a_store_whose_making_was_killed_is_made_by_the_next_command() {
    for point in ["rebuild-from:fetched", "rebuild-from:taken", "recover:replayed", "recover:owed"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let store = new_store(dir);
        (0..3).for_each(|n| put(&store, n, &replicated()));
        put(&store, 3, &on_disk_only());
        store.sync().unwrap();
        store.close().unwrap();
        burn(dir);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "rebuilder", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("TERRACE_REBUILDER", dir).env("TERRACE_FAIL_POINT", point);
        assert!(command.status().unwrap().code().is_none(), "{point} was not reached");
        let store = match dir.join("new/store").exists() {
            true => Store::open(&dir.join("new")).unwrap(),
            false => rebuilt(dir, "new", BY_FORCE).unwrap().0,
        };
        check(&store, 0..3);
        assert_eq!(store.find_lost().unwrap(), [b"o/3"], "{point}");
        store.close().unwrap();
    }
}

/// Makes the store again, without its node, and checks that all is there that a sync has promised.
fn outlives(dir: &Path) {
    let journal = fs::read_to_string(dir.join("journal")).unwrap_or_default();
    let synced: Vec<u64> = journal.lines().map(|line| line.parse().unwrap()).collect();
    burn(dir);
    let (store, remade) = rebuilt(dir, "new", BY_FORCE).unwrap();
    assert!(remade.lost.is_empty(), "{:?}", remade.lost);
    for &n in &synced {
        // Another writer may have been killed between the two.
        match n % 3 == 1 && synced.contains(&(n + 1)) {
            true => assert!(matches!(store.stat(&object(n).0), Err(Error::NotFound { .. })), "{n} was removed"),
            false if n % 3 == 1 && store.stat(&object(n).0).is_err() => {}
            false => check(&store, [n]),
        }
    }
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.bad, found.lost), (0, 0));
    store.close().unwrap();
}

#[test]
fn what_was_synced_is_there_wherever_its_writers_were_killed() {
    for point in ["pieces:written", "pieces:snapshot", "pieces:copied", "snapshot:named", "commit:logged", "sync:log"] {
        let dir = tempfile::tempdir().unwrap();
        drop(new_store(dir.path()));
        for (round, pass) in [1, 2, 3, 7].into_iter().enumerate() {
            let first = 99 * round as u64;
            let ended = spawn(dir.path(), first, 12, Some(&format!("{point}@{pass}"))).wait().unwrap();
            assert!(ended.code().is_none_or(|code| code == 0), "{point}@{pass}: {}", said(dir.path(), first));
        }
        outlives(dir.path());
    }
}

fn said(dir: &Path, first: u64) -> String {
    fs::read_to_string(dir.join(format!("stderr-{first}"))).unwrap()
}

#[test]
fn processes_that_sync_at_once_leave_one_copy() {
    let dir = tempfile::tempdir().unwrap();
    drop(new_store(dir.path()));
    let writers: Vec<Child> = (0..3).map(|who| spawn(dir.path(), 99 * who, 12, None)).collect();
    for (who, mut writer) in (0..).zip(writers) {
        assert!(writer.wait().unwrap().success(), "{}", said(dir.path(), 99 * who));
    }
    let names = pieces(dir.path());
    assert!(names.iter().any(|name| name.to_string_lossy().contains(".snapshot/")), "{names:?}");
    outlives(dir.path());
}
