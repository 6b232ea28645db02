//! Copies share the frames of the objects that they copy, and are objects of their own.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write};

use common::{
    check_and_rebuild, hold_mover, live, lose_power, new_store, replicated, shared_frames, store_of, tier, used,
};
use terrace::catalog::{Edit, NewExtent};
use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::{Random, noise};

#[test]
fn a_copy_takes_no_room_and_each_object_changes_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let bytes = noise(3_000_000, 1);
    store.put_bytes(b"a", &bytes, &replicated()).unwrap();
    store.sync().unwrap();
    let (before, frames) = (used(&store), live(&store));
    store.copy(b"a", b"b").unwrap();
    store.copy(b"b", b"c").unwrap();
    assert_eq!((used(&store), live(&store)), (before, frames), "no bytes were written");
    assert_eq!(store.stat(b"a").unwrap().attributes, store.stat(b"c").unwrap().attributes);
    store.write_at(b"b", 10, b"other bytes", &replicated()).unwrap();
    store.set_length(b"c", 100).unwrap();
    let mut changed = bytes.clone();
    changed[10..21].copy_from_slice(b"other bytes");
    let read = |store: &Store| [b"a", b"b", b"c"].map(|key| store.get(key).unwrap());
    let wanted = [bytes.clone(), changed, bytes[..100].to_vec()];
    assert!(read(&store) == wanted);
    let store = check_and_rebuild(store, dir.path());
    assert!(read(&store) == wanted);
    store.remove(b"a").unwrap();
    assert!(store.get(b"b").unwrap() == wanted[1] && store.get(b"c").unwrap() == wanted[2]);
    store.remove(b"b").unwrap();
    store.remove(b"c").unwrap();
    store.sync().unwrap();
    assert_eq!((shared_frames(&store), live(&store)), (0, 0), "the last owner takes its frames along");
    store.reap_now().unwrap();
    assert!(used(&store) < before / 10, "{}", used(&store));
}

#[test]
fn copies_keep_what_their_source_loses_and_what_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"a", b"first", &replicated()).unwrap();
    store.put_bytes(b"b", b"replaced", &replicated()).unwrap();
    store.copy(b"a", b"b").unwrap();
    store.put_bytes(b"a", b"second", &replicated()).unwrap();
    assert_eq!((store.get(b"a").unwrap(), store.get(b"b").unwrap()), (b"second".to_vec(), b"first".to_vec()));
    store.rename(b"b", b"a").unwrap();
    store.copy(b"a", b"a").unwrap();
    assert_eq!(store.get(b"a").unwrap(), b"first");
    let store = check_and_rebuild(store, dir.path());
    assert!(matches!(store.copy(b"none", b"b"), Err(terrace::Error::NotFound { .. })));
    assert!(matches!(store.copy(b"a", b"a/b"), Err(terrace::Error::Conflict { .. })));
    assert!(matches!(store.copy(b"a", b".terrace/b"), Err(terrace::Error::Reserved { .. })));
    store.put_bytes(b"empty", b"", &replicated()).unwrap();
    store.copy(b"empty", b"none").unwrap();
    assert_eq!(store.get(b"none").unwrap(), b"");
}

/// Many extents are shared by several commits; one of many pieces has frames in several of them.
#[test]
fn an_object_of_many_extents_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
    let mut bytes = noise(900_000, 1);
    store.put_bytes(b"a", &bytes, &replicated()).unwrap();
    for at in 0..1500 {
        let place = at * 600;
        bytes[place..place + 100].copy_from_slice(&noise(100, at as u64));
        store.write_at(b"a", place as u64, &bytes[place..place + 100], &PutOptions::default()).unwrap();
    }
    let last = noise(10, 7);
    store.write_at(b"a", 40 << 20, &last, &PutOptions::default()).unwrap();
    bytes.resize(40 << 20, 0);
    bytes.extend(last);
    store.copy(b"a", b"b").unwrap();
    assert!(store.locate(b"b").unwrap().extents.len() > 2000);
    assert!(store.get(b"b").unwrap() == bytes);
    let store = check_and_rebuild(store, dir.path());
    store.remove(b"a").unwrap();
    assert!(store.get(b"b").unwrap() == bytes);
    store.remove(b"b").unwrap();
    assert_eq!((shared_frames(&store), live(&store)), (0, 0));
}

/// A replica that is made, lost or moved is so for all owners.
#[test]
fn replicas_of_shared_frames_move_and_are_repaired_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let bytes = noise(200_000, 1);
    store.put_bytes(b"a", &bytes, &replicated()).unwrap();
    store.sync().unwrap();
    store.copy(b"a", b"b").unwrap();
    store.remove(b"a").unwrap();
    store.copy(b"b", b"c").unwrap();
    store.evict(b"", "ram").unwrap();
    let places = |key: &[u8]| {
        let extents = store.locate(key).unwrap().extents;
        extents.into_iter().flat_map(|e| e.replicas).map(|r| (r.target, r.position)).collect::<Vec<_>>()
    };
    let tiers = |key: &[u8]| {
        let extents = store.locate(key).unwrap().extents;
        extents.into_iter().flat_map(|e| e.replicas).map(|r| r.tier).collect::<Vec<_>>()
    };
    assert_eq!(places(b"b"), places(b"c"));
    assert!(tiers(b"b").iter().all(|tier| tier == "disk"), "{:?}", tiers(b"b"));
    store.stage(b"c", "ram").unwrap();
    assert_eq!(places(b"b"), places(b"c"));
    assert!(tiers(b"b").iter().any(|tier| tier == "ram"));
    // One replica is damaged: it is found once, and replaced for both.
    let found = store.locate(b"b").unwrap().extents[0].replicas.iter().find(|r| r.tier == "disk").cloned().unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(found.file.unwrap()).unwrap();
    file.seek(SeekFrom::Start(found.position.unwrap() + 500)).unwrap();
    file.write_all(&[0xAA; 900]).unwrap();
    drop(file);
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.repaired, scrubbed.lost), (1, 1, 0));
    assert_eq!(places(b"b"), places(b"c"));
    let store = check_and_rebuild(store, dir.path());
    assert!(store.get(b"b").unwrap() == bytes && store.get(b"c").unwrap() == bytes);
}

#[test]
fn what_is_lost_is_lost_to_each_owner() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a"], "")]);
    let one = PutOptions { replicas: Some(1), ..replicated() };
    store.put_bytes(b"a", &noise(5000, 1), &one).unwrap();
    store.copy(b"a", b"b").unwrap();
    store.sync().unwrap();
    let replica = store.locate(b"b").unwrap().extents[0].replicas[0].clone();
    let mut file = fs::OpenOptions::new().write(true).open(replica.file.unwrap()).unwrap();
    file.seek(SeekFrom::Start(replica.position.unwrap() + 500)).unwrap();
    file.write_all(&[0xAA; 900]).unwrap();
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((scrubbed.checked, scrubbed.bad, scrubbed.lost), (1, 1, 2));
    assert_eq!(scrubbed.lost_of.len(), 2);
}

/// A drain moves each shared frame once, and leaves nothing on the tier.
#[test]
fn a_tier_with_shared_frames_is_drained() {
    let dir = tempfile::tempdir().unwrap();
    let tiers = [tier(dir.path(), "old", &["a"], ""), tier(dir.path(), "new", &["b", "c"], "")];
    let store = store_of(dir.path(), &tiers);
    let bytes = noise(300_000, 1);
    store.put_bytes(b"a", &bytes, &replicated()).unwrap();
    store.sync().unwrap();
    (0..5).for_each(|copy| store.copy(b"a", format!("copies/{copy}").as_bytes()).unwrap());
    store.remove(b"a").unwrap();
    let moved = store.drain("old").unwrap();
    assert_eq!(moved.kept, 0);
    store.sync().unwrap();
    let store = check_and_rebuild(store, dir.path());
    store.close().unwrap();
    Store::remove_tier(&dir.path().join("store"), "old").unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!((0..5).all(|copy| store.get(format!("copies/{copy}").as_bytes()).unwrap() == bytes));
}

/// A plain file is one object's: a copy of it, or to where plain files are, is a file of its own.
#[test]
fn plain_files_are_never_shared() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join("disk/files").join(name);
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[rule]]\nprefix = 'plain'\nlayout = 'plain'\n{}",
        tier(dir.path(), "disk", &["disk"], "")
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let mut bytes = noise(2_500_000, 1);
    bytes[70_000..150_000].fill(0);
    store.put_bytes(b"plain/a", &bytes, &replicated()).unwrap();
    store.copy(b"plain/a", b"plain/b").unwrap();
    store.copy(b"plain/a", b"frames").unwrap();
    store.copy(b"frames", b"more").unwrap();
    store.copy(b"frames", b"plain/c").unwrap();
    store.sync().unwrap();
    let keys = ["plain/a", "plain/b", "plain/c", "frames", "more"];
    assert!(keys.iter().all(|key| store.get(key.as_bytes()).unwrap() == bytes));
    assert!(shared_frames(&store) > 0, "frames share with more");
    for name in ["plain/a", "plain/b", "plain/c"] {
        assert!(fs::read(path(name)).unwrap() == bytes, "{name}");
    }
    // What another program writes to one file harms no other object.
    fs::write(path("plain/a"), b"somebody's own").unwrap();
    assert!(keys[1..].iter().all(|key| store.get(key.as_bytes()).unwrap() == bytes));
    store.remove(b"plain/a").unwrap();
    // A copy that becomes a plain file has frames of its own then.
    store.rename(b"more", b"plain/more").unwrap();
    store.write_at(b"plain/more", 0, b"new", &replicated()).unwrap();
    store.sync().unwrap();
    bytes[..3].copy_from_slice(b"new");
    assert!(store.get(b"plain/more").unwrap() == bytes);
    assert!(fs::read(path("plain/more")).unwrap() == bytes);
    let store = check_and_rebuild(store, dir.path());
    store.compact().unwrap();
    assert!(store.get(b"plain/more").unwrap() == bytes);
}

/// An object that is read for long is leased. Its frames stay, whichever of their owners was the last.
#[test]
fn a_lease_on_one_owner_keeps_frames_that_another_gives_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let bytes = noise(100_000, 1);
    store.put_bytes(b"a", &bytes, &replicated()).unwrap();
    store.copy(b"a", b"b").unwrap();
    store.sync().unwrap();
    let handle = store.handle(b"b").unwrap();
    store.remove(b"b").unwrap();
    store.put_bytes(b"a", b"new", &replicated()).unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    let mut read = vec![0; bytes.len()];
    assert_eq!(handle.read_at(0, &mut read).unwrap(), bytes.len());
    assert!(read == bytes);
}

/// The frames of the first object are in memory when the machine loses power: the copy that was made durable has them.
#[test]
fn a_durable_copy_does_not_need_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let placed = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let bytes = noise(2_500_000, 1);
    store.put_bytes(b"a", &bytes, &placed).unwrap();
    store.copy(b"a", b"b").unwrap();
    store.put_bytes(b"a", b"a newer version", &placed).unwrap();
    store.make_durable(b"b").unwrap();
    for replicas in store.locate(b"b").unwrap().extents.into_iter().map(|extent| extent.replicas) {
        assert!(replicas.iter().any(|replica| replica.tier == "disk"), "{replicas:?}");
    }
}

/// A power cut takes what is in memory: a part of the first object, and what replaced it. So the commit of the first object is
/// void. The copy of it was made durable after a write over that part, and needs the other part, which only its own commit tells.
#[test]
fn a_durable_copy_survives_though_the_commit_of_its_source_is_void() {
    survive_a_void_source(false);
}

/// The same, where the replicas on disks were made before the copy, and those of the covered part were lost.
#[test]
fn a_copy_has_the_replicas_that_were_made_before_it_of_a_void_source() {
    survive_a_void_source(true);
}

fn survive_a_void_source(is_made_before: bool) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let store = new_store(dir);
    store.put_bytes(b"before", b"something synced", &replicated()).unwrap();
    store.sync().unwrap();
    // From here on nothing is moved in the background.
    let mover = hold_mover(dir);
    let in_memory = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    let (first, new) = (noise(3_000_000, 1), noise(3_000_000, 2));
    let mut receipt = store.put_bytes(b"a", &first, &in_memory).unwrap();
    if is_made_before {
        store.wait(&mut receipt, Ack::Replicated).unwrap();
    }
    let extents = store.locate(b"a").unwrap().extents;
    let covered = extents[0].length as usize;
    let on_disk = extents[0].replicas.iter().find(|replica| replica.tier == "disk" && replica.file.is_some()).cloned();
    assert_eq!(on_disk.is_some(), is_made_before);
    assert!(covered < first.len(), "it has several extents");
    store.copy(b"a", b"b").unwrap();
    store.put_bytes(b"a", &new, &in_memory).unwrap();
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    store.write_at(b"b", 0, &new[..covered], &durable).unwrap();
    let store = lose_power(dir, store, mover, |left| {
        if let Some(replica) = on_disk {
            let lost = left.join(replica.file.unwrap().strip_prefix(dir).unwrap());
            let mut file = fs::OpenOptions::new().write(true).open(lost).unwrap();
            file.seek(SeekFrom::Start(replica.position.unwrap())).unwrap();
            file.write_all(&vec![0; covered]).unwrap();
        }
    });
    assert!(matches!(store.get(b"a"), Err(terrace::Error::NotFound { .. })), "it was in memory only");
    let wanted = [&new[..covered], &first[covered..]].concat();
    assert!(store.get(b"b").unwrap() == wanted);
    let store = check_and_rebuild(store, dir);
    store.reap_now().unwrap();
    assert!(store.get(b"b").unwrap() == wanted);
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost), (0, 0), "nothing of it was given back");
    store.remove(b"b").unwrap();
    assert_eq!(shared_frames(&store), 0);
}

/// Salvage offers a removed source once more only where no copy names its frames.
#[test]
fn salvage_offers_no_frames_that_copies_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
    store.put_bytes(b"a", &noise(5000, 1), &replicated()).unwrap();
    store.copy(b"a", b"b").unwrap();
    store.remove(b"a").unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    let (store, salvaged) = Store::salvage(&dir.path().join("store")).unwrap();
    assert_eq!((salvaged.objects, salvaged.incomplete), (0, 0));
    assert_eq!(store.get(b"b").unwrap(), noise(5000, 1));
}

/// Two processes give up one replica: its place is freed once, so its segment still counts what else is in it.
#[test]
fn a_replica_that_is_given_up_twice_is_freed_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
    for key in [b"a", b"b", b"c"] {
        store.put_bytes(key, &noise(5000, 1), &replicated()).unwrap();
    }
    store.copy(b"a", b"copy").unwrap();
    let frames = live(&store);
    for key in [b"a", b"b"] {
        let (object, extents) = store.catalog().locate(key, 0, u64::MAX).unwrap().unwrap();
        let replica = extents[0].replicas[0];
        let task = extents[0].task(object.id, replica.target);
        for _ in 0..2 {
            let key = serde_bytes::ByteBuf::from(key.to_vec());
            store.catalog().commit(Edit::Lost { task, key, place: replica.place, owed: None }.into()).unwrap();
        }
    }
    assert_eq!(live(&store), frames - 2);
}

/// A wrong number of owners, which no commit of this version makes, was only logged.
#[test]
fn a_scrub_reports_wrong_numbers_of_owners() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
    store.put_bytes(b"a", &noise(5000, 1), &replicated()).unwrap();
    store.copy(b"a", b"b").unwrap();
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().miscounted, 0);
    // This names a shared frame that is not there.
    let mut extent = store.catalog().locate(b"a", 0, u64::MAX).unwrap().unwrap().1.remove(0);
    extent.write = store.catalog().next_id().unwrap();
    let object = store.catalog().next_id().unwrap();
    let extents = vec![NewExtent { extent, owed: Vec::new() }];
    store.catalog().commit(Edit::Write { key: b"forged".to_vec(), object, want: 1, mtime: 0, extents }.into()).unwrap();
    let part = |subset| store.scrub(b"", false, subset, |_| {}).unwrap().miscounted;
    assert_eq!([part(None), part(Some((1, 2))), part(Some((2, 2)))], [1, 1, 0]);
    let found = store.health().unwrap().findings;
    assert!(found.iter().any(|finding| finding.code.to_string() == "MISCOUNTED"), "{found:?}");
}

/// Random sequences, beside a map of bytes.
#[test]
fn random_copies_and_changes_are_as_those_of_a_map() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = new_store(dir.path());
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut random = Random::new(42);
    let mut below = |end: u64| random.below(end);
    for step in 0..400 {
        let (key, other) = (vec![b'a' + below(4) as u8], vec![b'a' + below(4) as u8]);
        let bytes = noise([100, 3000, 80_000, 1_300_000][below(4) as usize], step);
        let options = PutOptions::default();
        let at = below(100_000) as usize;
        match below(12) {
            0 | 1 => {
                store.put_bytes(&key, &bytes, &options).unwrap();
                model.insert(key, bytes);
            }
            2..=4 => match model.get(&key).cloned() {
                Some(bytes) => {
                    store.copy(&key, &other).unwrap();
                    model.insert(other, bytes);
                }
                None => assert!(matches!(store.copy(&key, &other), Err(terrace::Error::NotFound { .. }))),
            },
            5 | 6 => {
                store.write_at(&key, at as u64, &bytes, &options).unwrap();
                let file = model.entry(key).or_default();
                file.resize(file.len().max(at + bytes.len()), 0);
                file[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            7 if model.remove(&key).is_some() => store.remove(&key).unwrap(),
            8 if model.contains_key(&key) => {
                store.rename(&key, &other).unwrap();
                let bytes = model.remove(&key).unwrap();
                model.insert(other, bytes);
            }
            9 if model.contains_key(&key) => {
                store.set_length(&key, at as u64).unwrap();
                model.get_mut(&key).unwrap().resize(at, 0);
            }
            10 => drop(store.evict(b"", "ram").unwrap()),
            11 => store.compact().unwrap(),
            _ => {}
        }
        if step % 50 == 49 {
            store = check_and_rebuild(store, dir.path());
        }
        let all = store.list(b"", None, 100).unwrap();
        let found: BTreeMap<_, _> = all.into_iter().map(|(key, _)| (key.clone(), store.get(&key).unwrap())).collect();
        assert!(found == model, "step {step}");
        assert_eq!(store.catalog().miscounted_frames().unwrap(), [], "step {step}");
    }
    model.keys().for_each(|key| store.remove(key).unwrap());
    assert_eq!((shared_frames(&store), live(&store)), (0, 0));
}
