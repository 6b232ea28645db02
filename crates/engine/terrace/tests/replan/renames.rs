//! Renamed objects follow the rules for their new keys.

use std::fs;

use terrace::files::Files;
use terrace::{Ack, PutOptions, Store};

use crate::common::hold_mover;
use crate::{bytes, new_store_with, put, replicas, set_replicas};

#[test]
fn what_is_renamed_follows_the_rules_of_its_new_place() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[[rule]]\nprefix = 'many'\nreplicas = 3\n[[rule]]\nprefix = 'few'\nrequirements = ['min_storage']\n";
    let store = new_store_with(dir.path(), rules);
    put(&store, "many/a");
    put(&store, "many/d/b");
    let options = PutOptions { replicas: Some(2), ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(b"many/asked", &bytes(), &options).unwrap();
    store.rename(b"many/a", b"few/a").unwrap();
    store.rename(b"many/asked", b"few/asked").unwrap();
    let files = Files::new(&store).unwrap();
    files.rename(b"many/d", b"few/d", true).unwrap();
    store.sync().unwrap();
    let few = |key| replicas(&store, key).iter().all(|tiers| tiers.len() == 1);
    assert!(few("few/a") && few("few/d/b"), "{:?}", replicas(&store, "few/a"));
    assert!(replicas(&store, "few/asked").iter().all(|tiers| tiers.len() == 2), "what was asked for stands");
    store.rename(b"few/a", b"many/back").unwrap();
    store.sync().unwrap();
    let back = replicas(&store, "many/back");
    assert!(back.iter().all(|tiers| *tiers == ["quick", "slow", "slow"]), "{back:?}");
    for key in ["many/back", "few/d/b", "few/asked"] {
        assert!(store.get(key.as_bytes()).unwrap() == bytes(), "{key}");
    }
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.repaired), (0, 0, 0));
}

#[test]
fn what_is_renamed_while_it_is_owed_replicas_follows_the_rules_of_its_new_place() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[[rule]]\nprefix = 'few'\nreplicas = 1\n[[rule]]\nprefix = 'many'\nreplicas = 3\n";
    let store = new_store_with(dir.path(), rules);
    for (from, to, count) in [("many/a", "few/a", 1), ("few/b", "many/b", 3)] {
        store.put_bytes(from.as_bytes(), &bytes(), &PutOptions::default()).unwrap();
        store.rename(from.as_bytes(), to.as_bytes()).unwrap();
        store.sync().unwrap();
        let found = replicas(&store, to);
        assert!(found.iter().all(|tiers| tiers.len() == count), "{found:?}");
        assert!(store.get(to.as_bytes()).unwrap() == bytes());
    }
}

/// The number of replicas of an earlier rule was taken for one that had been asked for with the object.
#[test]
fn a_rename_beside_a_changed_rule_follows_the_rules_of_its_new_place() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[[rule]]\nprefix = 'a'\nreplicas = 1\n[[rule]]\nprefix = 'c'\nreplicas = 2\n";
    let store = new_store_with(dir.path(), rules);
    for key in ["a/moved", "a/copied"] {
        put(&store, key);
    }
    store.sync().unwrap();
    set_replicas(&store, 3);
    store.rename(b"a/moved", b"c/moved").unwrap();
    store.copy(b"a/copied", b"c/copied").unwrap();
    store.sync().unwrap();
    // A copy shares its frames with the first.
    for (key, wanted, count) in [("c/moved", 2, 2), ("c/copied", 2, 3), ("a/copied", 3, 3)] {
        let replicas = replicas(&store, key);
        assert!(replicas.iter().all(|tiers| tiers.len() == count), "{key}: {replicas:?}");
        assert_eq!(usize::from(store.stat(key.as_bytes()).unwrap().want), wanted, "{key}");
    }
}

/// Only the process that had renamed the object knew that other rules apply, and it ended while replicas were pending.
#[test]
fn the_next_process_replans_what_was_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'few'\nreplicas = 1\n");
    let held = hold_mover(dir.path());
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    store.put_bytes(b"many/a", &bytes(), &options).unwrap();
    store.rename(b"many/a", b"few/a").unwrap();
    store.leave();
    drop(held);
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.sync().unwrap();
    let replicas = replicas(&store, "few/a");
    assert!(replicas.iter().all(|tiers| tiers.len() == 1), "{replicas:?}");
    assert!(!store.dir().join("unplanned").exists());
}

/// The list had the old key, and the rename noted nothing, since the same rules apply to both.
#[test]
fn what_is_renamed_before_it_follows_changed_rules_does_so_under_its_new_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'a'\nreplicas = 3\n");
    put(&store, "a/1");
    store.sync().unwrap();
    fs::rename(dir.path().join("quick"), dir.path().join("elsewhere")).unwrap();
    set_replicas(&store, 2);
    store.sync().unwrap_err();
    store.rename(b"a/1", b"b/1").unwrap();
    drop(store);
    fs::rename(dir.path().join("elsewhere"), dir.path().join("quick")).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.sync().unwrap();
    let replicas = replicas(&store, "b/1");
    assert!(replicas.iter().all(|tiers| tiers.len() == 2), "{replicas:?}");
}

/// A torn line took the next key with it.
#[test]
fn a_damaged_list_of_what_is_to_be_planned_loses_no_later_key() {
    for damage in [&b"6162"[..], b"\xff\xfe"] {
        let dir = tempfile::tempdir().unwrap();
        let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'few'\nreplicas = 1\n");
        put(&store, "many/a");
        fs::write(store.dir().join("unplanned"), damage).unwrap();
        store.rename(b"many/a", b"few/a").unwrap();
        store.sync().unwrap();
        let replicas = replicas(&store, "few/a");
        assert!(replicas.iter().all(|tiers| tiers.len() == 1), "{replicas:?}");
    }
}
