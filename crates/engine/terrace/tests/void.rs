//! Commits that a power cut makes void: all of their edits are, also those that need no bytes.

#![allow(clippy::unwrap_used)]

mod common;

use common::{check_and_rebuild, clear, hold_mover, in_memory, lose_power, new_store, replicated};
use terrace::{Ack, Error, PutOptions};
use terrace_testkit::noise;

/// A batch wrote one object and removed another, and the power went while both were in memory. Recovery took the bytes of the removed
/// one for unneeded, as a later commit removes it, and carried out its `put`. Then it found that the batch had lost its bytes, and
/// did not remove it: so it was there, without its bytes.
#[test]
fn what_a_void_batch_was_to_remove_is_not_there_without_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"before", b"something synced", &replicated()).unwrap();
    store.sync().unwrap();
    let mover = hold_mover(dir.path());
    store.put_bytes(b"removed", &noise(200_000, 1), &in_memory()).unwrap();
    let mut batch = store.batch();
    let object = batch.make(b"made", 0, Default::default()).unwrap();
    let bytes = noise(200_000, 2);
    batch.write(b"made", object, 0, &bytes, None).unwrap();
    batch.remove(b"removed");
    batch.commit().unwrap();
    let store = lose_power(dir.path(), store, mover, |_| {});
    for key in [&b"made"[..], b"removed"] {
        assert!(matches!(store.get(key), Err(Error::NotFound { .. })), "{key:?}: {:?}", store.stat(key));
    }
    check_and_rebuild(store, dir.path());
}

/// The same of a range: the batch laid other bytes over it.
#[test]
fn what_a_void_batch_was_to_lay_over_is_not_there_without_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    let first = noise(200_000, 1);
    store.put_bytes(b"a", &first, &durable).unwrap();
    store.put_bytes(b"b", b"", &durable).unwrap();
    store.sync().unwrap();
    let mover = hold_mover(dir.path());
    store.write_at(b"a", 0, &noise(100_000, 3), &in_memory()).unwrap();
    let (a, b) = (store.stat(b"a").unwrap().id, store.stat(b"b").unwrap().id);
    let (held, lost) = (noise(100_000, 5), noise(100_000, 7));
    let mut batch = store.batch();
    batch.write(b"a", a, 0, &held, None).unwrap();
    batch.write(b"b", b, 0, &lost, None).unwrap();
    batch.commit().unwrap();
    // One of the two writes gets a replica that survives.
    store.make_durable(b"a").unwrap();
    let store = lose_power(dir.path(), store, mover, |_| {});
    assert!(store.get(b"a").unwrap() == first);
    assert_eq!(store.get(b"b").unwrap(), b"");
    check_and_rebuild(store, dir.path());
}

/// An object was in memory, and a later write to it on a disk. The power cut took the object, and the write made another one with this
/// key, of its own bytes and of what the mover had merged with them.
#[test]
fn no_part_of_a_lost_object_comes_back_with_a_later_write() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"before", b"something synced", &replicated()).unwrap();
    store.sync().unwrap();
    let mover = hold_mover(dir.path());
    store.put_bytes(b"a", &noise(3_000_000, 1), &in_memory()).unwrap();
    let on_disk = PutOptions { tiers: Some(vec!["disk".into()]), ack: Some(Ack::Placed), ..PutOptions::default() };
    store.write_at(b"a", 2324, &noise(90_000, 2), &on_disk).unwrap();
    assert!(store.locate(b"a").unwrap().extents.iter().any(|extent| extent.replicas.iter().all(|r| r.tier == "disk")));
    let store = lose_power(dir.path(), store, mover, |_| {});
    assert!(matches!(store.get(b"a"), Err(Error::NotFound { .. })), "{:?}", store.stat(b"a"));
    check_and_rebuild(store, dir.path());
}

/// An object was replaced, and a part of the new one was cleared. The new one was lost, the old one came back, and the part that the new one
/// had there was cleared in it.
#[test]
fn an_object_that_comes_back_has_none_of_the_changes_of_the_one_that_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let old = noise(300_000, 1);
    for key in [b"cleared", b"cut set", b"renamed"] {
        store.put_bytes(key, &old, &replicated()).unwrap();
    }
    store.sync().unwrap();
    let mover = hold_mover(dir.path());
    for key in [b"cleared", b"cut set", b"renamed"] {
        store.put_bytes(key, &noise(90_000, 2), &in_memory()).unwrap();
    }
    clear(&store, b"cleared", 50_000, 90_000).unwrap();
    store.set_length(b"cut set", 20_000).unwrap();
    store.rename(b"renamed", b"to").unwrap();
    store.set_length(b"to", 20_000).unwrap();
    let store = lose_power(dir.path(), store, mover, |_| {});
    for key in [&b"cleared"[..], b"cut set", b"to"] {
        assert!(store.get(key).is_ok_and(|found| found == old), "{key:?}");
    }
    assert!(matches!(store.get(b"renamed"), Err(Error::NotFound { .. })));
    check_and_rebuild(store, dir.path());
}
