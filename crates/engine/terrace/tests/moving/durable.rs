//! Moves must not leave bytes in memory only.

use std::fs;
use std::thread;

use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::{noise, wait_until};

use crate::common::{hold_mover, in_memory, replicated, store_of, tier};
use crate::{new_store, store_on, tiers_of};

#[test]
fn nothing_becomes_volatile_by_being_moved() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let text = format!(
        "[[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a']\n"
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let options = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(b"k", &[7; 100_000], &options).unwrap();
    store.evict(b"", "ram").unwrap();
    for moved in [store.drain("disk").unwrap(), store.evict(b"k", "disk").unwrap()] {
        assert_eq!((moved.made, moved.dropped, moved.kept), (0, 0, 1));
    }
    assert_eq!(tiers_of(&store, b"k"), [["disk"]]);
}

/// `drain disk` of an object with a replica on each of two disks, and none in memory, dropped the second replica since the
/// first was still there, and moved the first to memory: exit code 0, and the next reboot would have taken the object.
#[test]
fn a_drain_does_not_leave_an_object_in_memory_only() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let text = format!(
        "[[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a', '{d}/b']\n"
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let options = PutOptions { replicas: Some(2), tiers: Some(vec!["disk".into()]), ..PutOptions::default() };
    for key in [&b"drained"[..], b"evicted"] {
        let mut receipt = store.put_bytes(key, &[7; 100_000], &options).unwrap();
        store.wait(&mut receipt, Ack::Durable).unwrap();
        assert_eq!(tiers_of(&store, key), [["disk", "disk"]]);
    }
    assert_eq!(store.evict(b"evicted", "disk").unwrap().kept, 1);
    assert_eq!(store.drain("disk").unwrap().kept, 2);
    for key in [&b"drained"[..], b"evicted"] {
        assert_eq!(tiers_of(&store, key), [["ram", "disk"]]);
    }
}

/// `drain disk` forgave the replica that an object in memory was owed on a disk, and owed it nowhere else: exit code 0, `sync`
/// called all durable, and the next reboot took the object. Tests drained only what had all its replicas.
/// All replicas have to persist, and a move made one of them in memory. `sync` said that all is durable.
#[test]
fn a_move_keeps_the_requirement_that_all_replicas_persist() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_on(dir.path(), &["a"]);
    let requirements = vec!["max_durability=2".parse().unwrap()];
    let options = PutOptions { requirements, ..replicated() };
    for key in [&b"drained"[..], b"evicted"] {
        store.put_bytes(key, &noise(50_000, 1), &options).unwrap();
        assert_eq!(tiers_of(&store, key), [["disk", "pfs"]]);
    }
    store.evict(b"evicted", "pfs").unwrap();
    assert_eq!(tiers_of(&store, b"evicted"), [["disk"]]);
    let moved = store.drain("pfs").unwrap();
    assert_eq!(tiers_of(&store, b"drained"), [["disk"]]);
    assert!(moved.thinned > 0, "it is said: {moved:?}");
}

#[test]
fn a_drain_keeps_what_is_owed_to_the_drained_tier() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_on(dir.path(), &["a", "b"]);
    // Nothing is made in the background.
    let lock = fs::File::options().create(true).append(true).open(store.dir().join("mover")).unwrap();
    lock.lock().unwrap();
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    store.put_bytes(b"k", &[7; 100_000], &options).unwrap();
    assert_eq!(tiers_of(&store, b"k"), [["ram"]]);
    store.drain("disk").unwrap();
    assert_eq!(tiers_of(&store, b"k"), [["ram", "pfs"]]);
}

/// A replica that was owed to the drained tier counted as pending since the drain only. A sync mark covered the commit of bytes that
/// were in memory, and after a power cut the object was there without them. Found by the model checker.
#[test]
fn a_drain_keeps_the_sync_mark_waiting_for_bytes_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_on(dir.path(), &["a"]);
    let _mover = hold_mover(dir.path());
    store.put_bytes(b"k", &noise(200_000, 1), &in_memory()).unwrap();
    let fleeting = || store.catalog().tail_and_first_fleeting(|target| target != 0).unwrap().1;
    let before = fleeting();
    assert!(before.is_some());
    // The tier that takes the replica fails, so that it stays pending there.
    let segments = dir.path().join("c/segments");
    fs::remove_dir_all(&segments).unwrap();
    // A folder in which not even root makes files.
    std::os::unix::fs::symlink("/sys", &segments).unwrap();
    let is_moved = || store.catalog().owed(None, 2).unwrap().iter().all(|(task, _)| task.target == 2);
    thread::scope(|scope| {
        let drained = scope.spawn(|| store.drain("disk"));
        wait_until("the replica is owed to the other tier", is_moved);
        let after = fleeting();
        fs::remove_file(&segments).unwrap();
        fs::create_dir(&segments).unwrap();
        drained.join().unwrap().unwrap();
        assert_eq!(after, before);
    });
    assert_eq!(tiers_of(&store, b"k"), [["ram", "pfs"]]);
}

/// With an acknowledgement that comes at once, `max_durability` put replica 0 into memory, though only persistent targets were asked for.
#[test]
fn max_durability_keeps_out_of_memory_whatever_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    for (number, ack) in [Ack::Placed, Ack::Replicated, Ack::Durable].into_iter().enumerate() {
        let options = PutOptions {
            ack: Some(ack),
            requirements: vec!["max_durability=2".parse().unwrap()],
            ..PutOptions::default()
        };
        let key = format!("k{number}").into_bytes();
        store.put_bytes(&key, &[7; 300_000], &options).unwrap();
        let now = tiers_of(&store, &key).concat();
        assert!(!now.is_empty() && !now.contains(&"ram".to_owned()), "{ack:?}: {now:?}");
        // What is written later, too, as it was asked for with the object.
        store
            .write_at(&key, 1_000_000, &[8; 300_000], &PutOptions { ack: Some(ack), ..PutOptions::default() })
            .unwrap();
        store.sync().unwrap();
        let all = tiers_of(&store, &key);
        assert!(all.iter().all(|tiers| tiers.len() == 2 && !tiers.contains(&"ram".to_owned())), "{ack:?}: {all:?}");
    }
}

/// Two evictions at once each saw the other disk's replica stay, and moved their own to memory: durable objects were in memory
/// alone, and `sync` called them durable. Every test moved one thing at a time.
#[test]
fn evictions_at_once_leave_a_replica_that_outlives_a_reboot() {
    let dir = tempfile::tempdir().unwrap();
    let tiers = [
        tier(dir.path(), "ram", &["ram"], "persistent = false"),
        tier(dir.path(), "d1", &["d1"], ""),
        tier(dir.path(), "d2", &["d2"], ""),
    ];
    let store = store_of(dir.path(), &tiers);
    let durable = PutOptions { ack: Some(Ack::Durable), replicas: Some(2), ..PutOptions::default() };
    for round in 0..6 {
        for number in 0..30 {
            store.put_bytes(format!("x/{number}").as_bytes(), &noise(30_000, round * 30 + number), &durable).unwrap();
        }
        std::thread::scope(|scope| {
            for tier in ["d1", "d2"] {
                let store = &store;
                scope.spawn(move || store.evict(b"x", tier).unwrap());
            }
        });
        store.sync().unwrap();
        for number in 0..30 {
            let key = format!("x/{number}");
            let located = store.locate(key.as_bytes()).unwrap();
            let on: Vec<&str> = located.extents[0].replicas.iter().map(|replica| replica.tier.as_str()).collect();
            assert!(on.iter().any(|tier| *tier != "ram"), "round {round}: {key} is on {on:?}");
        }
    }
}
