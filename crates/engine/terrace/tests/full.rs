//! File systems that are full or read-only: what happens on a real, small one.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{store_of, tier};
use terrace::report::{FindingCode, ReplicaState, TierState};
use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::{SmallDisk, noise};

fn segments(target: &Path) -> Vec<u64> {
    let entries = fs::read_dir(target.join("segments")).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).collect()
}

fn state_of(store: &Store, tier: &str) -> (TierState, u64) {
    let tiers = store.status().unwrap().tiers;
    tiers.iter().find(|status| status.name == tier).map(|status| (status.state, status.capacity)).unwrap()
}

/// A target that failed is left alone for two seconds.
fn becomes_ok(store: &Store, tier: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while state_of(store, tier).0 != TierState::Ok {
        assert!(Instant::now() < end, "{:?}", state_of(store, tier));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A tier without a configured capacity on a full file system was "ok, unlimited"; each write that failed there left an
/// empty segment file (2,079 in one trial); and what was owed to it was tried there for 30 seconds, though another tier
/// had room: making room declared the target usable each time, as nothing but the configured capacity was looked at.
#[test]
fn a_full_file_system_is_told_of_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) =
        SmallDisk::mount("a full file system is told of and left alone", &dir.path().join("small"), "size=2m")
    else {
        return;
    };
    let tiers = [
        tier(dir.path(), "first", &["first"], ""),
        tier(dir.path(), "small", &["small/t"], ""),
        tier(dir.path(), "big", &["big"], ""),
    ];
    let store = store_of(dir.path(), &tiers);
    assert_eq!(state_of(&store, "small").0, TierState::Ok);
    assert!(state_of(&store, "small").1 <= 2 << 20, "its file system has no more");
    small.fill_but(0);
    let both = PutOptions { ack: Some(Ack::Replicated), replicas: Some(2), ..PutOptions::default() };
    let bytes = noise(1_500_000, 2);
    for number in 0..20 {
        store.put_bytes(format!("k{number}").as_bytes(), &bytes, &both).unwrap();
        assert_eq!(store.status().unwrap().owed, 0, "the others take it");
    }
    assert_eq!(state_of(&store, "small").0, TierState::Full);
    assert!(segments(&dir.path().join("small/t")).len() <= 1, "failed writes leave no files");
    // Others free some room.
    small.make_room();
    store.sync().unwrap();
    becomes_ok(&store, "small");
    small.remount("ro");
    assert_eq!(state_of(&store, "small").0, TierState::ReadOnly);
    store.put_bytes(b"more", &bytes, &both).unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
    small.remount("rw");
    store.put_bytes(b"again", &bytes, &both).unwrap();
    becomes_ok(&store, "small");
}

/// A replica that was pending on a disk became one in memory where the disk was read-only, and counted for a durable write. It stayed
/// there when the disk could be written to again.
#[test]
fn a_replica_in_memory_is_none_of_a_durable_write() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) =
        SmallDisk::mount("a replica in memory is none of a durable write", &dir.path().join("small"), "size=20m")
    else {
        return;
    };
    let tiers = [
        tier(dir.path(), "ram", &["ram"], "persistent = false"),
        tier(dir.path(), "small", &["small/t"], ""),
        tier(dir.path(), "big", &["big"], ""),
    ];
    let store = store_of(dir.path(), &tiers);
    small.remount("ro");
    let durable = PutOptions { ack: Some(Ack::Durable), replicas: Some(2), ..PutOptions::default() };
    store.put_bytes(b"k", &noise(1_500_000, 3), &durable).unwrap_err();
    let holders = || -> Vec<Vec<String>> {
        let extents = store.locate(b"k").unwrap().extents.into_iter();
        extents.map(|extent| extent.replicas.into_iter().map(|replica| replica.tier).collect()).collect()
    };
    assert!(store.status().unwrap().owed > 0 && !holders().concat().contains(&"ram".to_owned()), "{:?}", holders());
    small.remount("rw");
    becomes_ok(&store, "small");
    store.sync().unwrap();
    for replicas in holders() {
        assert!(replicas.contains(&"small".to_owned()) && replicas.contains(&"big".to_owned()), "{replicas:?}");
    }
}

/// Memory was at its watermark and another program had filled the disks, so eviction dropped replicas in memory, and nothing was
/// pending instead: `sync` said that all is well, and the objects had one replica.
#[test]
fn a_replica_that_is_dropped_for_want_of_room_becomes_pending() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |name: &str| SmallDisk::mount("a replica that is dropped", &dir.path().join(name), "size=16m");
    let (Some(a), Some(b)) = (mount("a"), mount("b")) else { return };
    let memory = tier(dir.path(), "ram", &["ram"], "persistent = false\ncapacity = '6MiB'");
    let disk = tier(dir.path(), "disk", &["a/t", "b/t"], "");
    let store = store_of(dir.path(), &[memory, disk]);
    let keys = [b"0", b"1", b"2", b"3"];
    for key in keys {
        store.put_bytes(key, &noise(1_000_000, key[0].into()), &PutOptions::default()).unwrap();
    }
    store.sync().unwrap();
    let count = |key: &[u8; 1]| {
        let extents = store.locate(key).unwrap().extents;
        extents[0].replicas.iter().filter(|replica| replica.state == ReplicaState::Present).count()
    };
    assert!(keys.iter().all(|key| count(key) == 2));

    [&a, &b].into_iter().for_each(|small| small.fill_but(0));
    let placed = PutOptions { ack: Some(Ack::Placed), replicas: Some(1), ..PutOptions::default() };
    // The last of these finds no room at all.
    let crowd = |n: u8| store.put_bytes(&[b'x', n], &noise(1_000_000, n.into()), &placed).is_ok();
    let crowded = (0..10).filter(|n| crowd(*n)).count();
    assert!(crowded > 1, "memory has no room for others");
    let thinned = keys.iter().filter(|key| count(key) == 1).count();
    assert!(thinned > 0, "memory makes room");
    let error = store.sync().unwrap_err();
    assert!(matches!(error, terrace::Error::StillOwed { .. }), "{error}");
    assert!(store.status().unwrap().owed >= (thinned + crowded) as u64);

    [&a, &b].into_iter().for_each(SmallDisk::make_room);
    becomes_ok(&store, "disk");
    store.sync().unwrap();
    assert!(keys.iter().all(|key| count(key) == 2), "the pending replicas are made");
}

/// `sync` said that a tier was slow or away, and `health` to wait.
#[test]
fn a_read_only_file_system_is_named_as_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) =
        SmallDisk::mount("a read only file system is named as the reason", &dir.path().join("small"), "size=20m")
    else {
        return;
    };
    let tiers = [tier(dir.path(), "ram", &["ram"], "persistent = false"), tier(dir.path(), "disk", &["small/t"], "")];
    let store = store_of(dir.path(), &tiers);
    store.sync().unwrap();
    small.remount("ro");
    let placed = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    store.put_bytes(b"k", &noise(100_000, 3), &placed).unwrap();
    let late = store.sync().unwrap_err().to_string();
    assert!(late.contains("the file system of tier disk is read-only"), "{late}");
    let health = store.health().unwrap();
    let said = |wanted: FindingCode| {
        let found = health.findings.iter().find(|finding| finding.code == wanted);
        let found = found.unwrap_or_else(|| panic!("no {wanted} in {:?}", health.findings));
        format!("{}: {}", found.message, found.advice)
    };
    assert!(said(FindingCode::TierReadOnly).contains("read-only"));
    for code in [FindingCode::Owed, FindingCode::NotDurable] {
        assert!(said(code).contains("waiting does not help"), "{}", said(code));
    }
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    let refused = store.put_bytes(b"l", &noise(100_000, 4), &durable).unwrap_err().to_string();
    assert!(refused.contains("make the read-only file system writable"), "{refused}");
    small.remount("rw");
    becomes_ok(&store, "disk");
    store.sync().unwrap();
    assert!(store.health().unwrap().findings.iter().all(|finding| finding.code != FindingCode::Owed));
}

/// Writes that no target will ever have room for waited as long as others: 30 seconds for each file.
#[test]
fn what_nobody_can_take_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount("what nobody can take is not waited for", &dir.path().join("small"), "size=1m")
    else {
        return;
    };
    let store =
        store_of(dir.path(), &[tier(dir.path(), "small", &["small/t"], ""), tier(dir.path(), "big", &["big"], "")]);
    small.fill_but(0);
    let both = PutOptions { ack: Some(Ack::Replicated), replicas: Some(2), ..PutOptions::default() };
    let late = store.put_bytes(b"k", &noise(500_000, 2), &both).unwrap_err();
    assert!(matches!(late, terrace::Error::StillOwed { owed: 1, seconds: 1, is_full: true, .. }), "{late}");
    small.make_room();
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
}

/// A failed write in the middle of a segment is taken back: what was before it stays, what comes next follows it.
/// A replica that was owed to a full upper tier, or to a service, which does not tell how much room it has, was waited for 30 to 60 seconds.
#[cfg(feature = "services-fs")]
#[test]
fn a_full_upper_tier_and_a_full_service_are_not_waited_for_long() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount("a full service is not waited for long", &dir.path().join("small"), "size=3m")
    else {
        return;
    };
    let service = format!(
        "[[tier]]\nname = 'service'\nkind = 'object'\nservice = 'fs'\ntargets = ['{}']\n",
        small.path().join("t").display()
    );
    let store = store_of(dir.path(), &[tier(dir.path(), "upper", &["upper"], "capacity = '2MiB'\n"), service]);
    let both = PutOptions { ack: Some(Ack::Replicated), replicas: Some(2), ..PutOptions::default() };
    store.put_bytes(b"k", &noise(1_000_000, 1), &both).unwrap();
    small.fill_but(0);
    let late = store.put_bytes(b"l", &noise(500_000, 2), &both).unwrap_err();
    assert!(matches!(late, terrace::Error::StillOwed { seconds: 1, is_full: true, .. }), "{late}");
    small.make_room();
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
}

#[test]
fn a_segment_goes_on_after_a_write_that_failed() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) =
        SmallDisk::mount("a segment goes on after a write that failed", &dir.path().join("small"), "size=2m")
    else {
        return;
    };
    let store =
        store_of(dir.path(), &[tier(dir.path(), "small", &["small/t"], ""), tier(dir.path(), "big", &["big"], "")]);
    let one = PutOptions { replicas: Some(1), tiers: Some(vec!["small".into()]), ..PutOptions::default() };
    store.put_bytes(b"a", &noise(700_000, 1), &one).unwrap();
    // Nobody has looked at the space since: the write itself finds the file system full.
    small.fill_but(0);
    let any = PutOptions { replicas: Some(1), ..PutOptions::default() };
    store.put_bytes(b"b", &noise(900_000, 2), &any).unwrap();
    assert_eq!(segments(&dir.path().join("small/t")).len(), 1);
    small.make_room();
    store.status().unwrap();
    store.put_bytes(b"c", &noise(300_000, 3), &one).unwrap();
    assert_eq!(segments(&dir.path().join("small/t")).len(), 1, "one segment goes on");
    let home = store.dir().to_owned();
    store.close().unwrap();
    let store = Store::rebuild(&home).unwrap();
    for (key, length, seed) in [(b"a", 700_000, 1), (b"b", 900_000, 2), (b"c", 300_000, 3)] {
        assert!(store.get(key).unwrap() == noise(length, seed));
    }
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

/// A sync mark waits for the first commit whose bytes are in memory only; these wait for room on the disk; and the room that a
/// removal frees came back only when a mark covered the removal. So a full disk stayed full until more was deleted. No test
/// had both a tier in memory and a disk that fills up.
#[test]
fn a_removal_makes_room_for_bytes_that_wait_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let memory = tier(dir.path(), "ram", &["ram"], "persistent = false\ncapacity = '4MiB'");
    let disk = tier(dir.path(), "disk", &["disk"], "capacity = '8MiB'");
    let text = format!("[store]\nreplicas = {{ default = 1 }}\n{memory}{disk}");
    let home = dir.path().join("store");
    let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
    let placed = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let (first, second) = (noise(5_000_000, 1), noise(5_000_000, 2));
    store.put_bytes(b"first", &first, &placed).unwrap();
    store.put_bytes(b"second", &second, &placed).unwrap();
    let full = store.sync().unwrap_err();
    assert!(matches!(full, terrace::Error::StillOwed { .. }), "what is in memory alone is not durable: {full}");
    store.remove(b"first").unwrap();
    store.sync().unwrap();
    drop(store);
    fs::remove_dir_all(dir.path().join("ram")).unwrap();
    let store = Store::open(&home).unwrap();
    assert!(store.get(b"second").unwrap() == second);
    assert!(matches!(store.get(b"first"), Err(terrace::Error::NotFound { .. })));
}

/// On a full disk a store that lay on it could not be opened, not even to be read, and each attempt left an empty file there;
/// nothing could be removed from it either.
#[test]
fn a_store_on_a_full_disk_is_opened_read_and_freed_of_objects() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(
        "a store on a full disk is opened read and freed of objects",
        &dir.path().join("small"),
        "size=16m",
    ) else {
        return;
    };
    let home = small.path().join("store");
    let text = tier(dir.path(), "disk", &["disk"], "");
    let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
    let key = |number: u64| format!("folder/{number}").into_bytes();
    (0..300)
        .for_each(|number| drop(store.put_bytes(&key(number), &noise(300, number), &PutOptions::default()).unwrap()));
    // Until here the disk has room, so a mark says that the store was closed; the next opener changes it.
    store.close().unwrap();
    let whole = fs::metadata(home.join("reserve")).unwrap().len();
    assert_eq!(whole, 256 << 10, "a 64th of the disk");
    small.fill_but(0);
    let names = || fs::read_dir(&home).unwrap().count();
    let before = names();
    for number in 0..3 {
        let store = Store::open(&home).unwrap();
        assert_eq!(store.get(&key(299)).unwrap(), noise(300, 299));
        // Pages of the catalog and of the log may have room left. What the reserve has given back is for removals.
        let put =
            |n: u64| store.put_bytes(format!("new/{number}/{n}").as_bytes(), &noise(300, n), &PutOptions::default());
        let refused = (0..5000).find_map(|n| put(n).err()).unwrap().to_string();
        assert!(refused.contains(&home.display().to_string()) && refused.contains("bytes on it, or more"), "{refused}");
        store.remove(&key(number)).unwrap();
        assert!(store.stat(&key(number)).is_err());
    }
    let store = Store::open(&home).unwrap();
    (3..250).for_each(|number| store.remove(&key(number)).unwrap());
    assert_eq!(store.list(b"folder", None, 1000).unwrap().len(), 50);
    drop(store.handle(&key(299)).unwrap());
    drop(store);
    assert!(names() <= before + 3, "failed writes leave no files");
    small.make_room();
    let store = Store::open(&home).unwrap();
    store.put_bytes(b"later", &noise(300, 1), &PutOptions::default()).unwrap();
    store.sync().unwrap();
    assert_eq!(fs::metadata(home.join("reserve")).unwrap().len(), whole);
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

/// LMDB maps its lock file, which was sparse: `init` ended by SIGBUS, or left its targets behind as those of another store.
#[test]
fn a_store_is_made_on_a_nearly_full_disk_or_can_be_later() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) =
        SmallDisk::mount("a store is made on a nearly full disk or can be later", &dir.path().join("small"), "size=2m")
    else {
        return;
    };
    for free in (4..=80).step_by(4) {
        let (home, target) = (small.path().join("store"), small.path().join("target"));
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", target.display());
        let config = Config::parse(&text, "test").unwrap();
        small.fill_but(free << 10);
        let made = Store::init(&home, &config);
        small.make_room();
        let store = made.unwrap_or_else(|_| Store::init(&home, &config).unwrap());
        store.put_bytes(b"k", b"bytes", &PutOptions::default()).unwrap();
        store.close().unwrap();
        // The table of readers is gone, and the disk is full.
        fs::remove_file(home.join("catalog/lock.mdb")).unwrap();
        small.fill_but(0);
        if let Ok(store) = Store::open(&home) {
            assert_eq!(store.get(b"k").unwrap(), b"bytes");
        }
        small.make_room();
        assert_eq!(Store::open(&home).unwrap().get(b"k").unwrap(), b"bytes");
        Store::destroy(&home, true).unwrap();
    }
}
