//! Stored objects follow changed rules.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use terrace::report::Location;
use terrace::{Ack, PutOptions, Store};

use crate::common::hold_mover;
use crate::{bytes, new_store, new_store_with, put, replicas, set_replicas, stored};

#[test]
fn a_changed_rule_is_followed_by_what_it_touches() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    for key in ["few/a", "many/a", "other/a"] {
        put(&store, key);
    }
    let options = PutOptions { replicas: Some(3), ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(b"few/asked", &bytes(), &options).unwrap();
    assert!(store.status().unwrap().replanning.is_none());
    let other = store.locate(b"other/a").unwrap();
    let before = store.locate(b"few/a").unwrap();
    drop(store);
    let path = dir.path().join("store/terrace.toml");
    let text = fs::read_to_string(&path).unwrap();
    let rules = "[[rule]]\nprefix = 'many'\nreplicas = 3\n[[rule]]\nprefix = 'few'\nrequirements = ['min_storage']\n";
    fs::write(&path, text + rules).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(store.status().unwrap().replanning.is_some(), "nothing was replanned yet");
    store.sync().unwrap();
    assert!(store.status().unwrap().replanning.is_none());
    assert!(replicas(&store, "many/a").iter().all(|tiers| *tiers == ["quick", "slow", "slow"]));
    assert!(replicas(&store, "few/a").iter().all(|tiers| tiers.len() == 1), "{:?}", replicas(&store, "few/a"));
    assert!(stored(&store.locate(b"few/a").unwrap()) * 5 < stored(&before) * 2, "one replica, and denser");
    assert!(replicas(&store, "few/asked").iter().all(|tiers| tiers.len() == 3), "what was asked for stands");
    let same = |location: &Location| format!("{location:?}");
    assert_eq!(same(&store.locate(b"other/a").unwrap()), same(&other), "no rule touches it");
    let scrubbed = store.scrub(b"", true, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.away), (0, 0, 0));
    assert!(replicas(&store, "few/a").iter().all(|tiers| tiers.len() == 1), "nothing is missing");
    for key in ["few/a", "few/asked", "many/a", "other/a"] {
        assert!(store.get(key.as_bytes()).unwrap() == bytes(), "{key}");
    }
}

/// The store counted a note that it could not read as one of the current rules, so changed rules never reached its objects.
#[test]
fn a_changed_rule_is_followed_where_the_note_of_the_rules_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    put(&store, "few/a");
    put(&store, "other/a");
    let other = format!("{:?}", store.locate(b"other/a").unwrap());
    drop(store);
    let path = dir.path().join("store/terrace.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "[[rule]]\nprefix = 'few'\nreplicas = 1\n").unwrap();
    for note in [&b""[..], b"\n[store]\nfuture = 1\n", b"\n[store]\xff\n"] {
        fs::write(dir.path().join("store/rules"), note).unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        assert!(store.status().unwrap().replanning.is_some());
        store.sync().unwrap();
        assert!(store.status().unwrap().replanning.is_none());
        assert!(replicas(&store, "few/a").iter().all(|tiers| tiers.len() == 1), "{:?}", replicas(&store, "few/a"));
        assert_eq!(format!("{:?}", store.locate(b"other/a").unwrap()), other, "no rule touches it");
    }
}

#[test]
fn what_was_asked_for_with_an_object_outlives_rules_and_processes() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'd'\nreplicas = 2\n");
    let path = dir.path().join("store");
    let asked = |requirement: &str| PutOptions {
        requirements: vec![requirement.parse().unwrap()],
        ack: Some(Ack::Replicated),
        ..PutOptions::default()
    };
    store.put_bytes(b"d/dense", &bytes(), &asked("min_storage")).unwrap();
    store.put_bytes(b"d/near", &bytes(), &asked("min_read_latency")).unwrap();
    let before = store.locate(b"d/dense").unwrap();
    drop(store);
    let text = fs::read_to_string(path.join("terrace.toml")).unwrap();
    let changed = text.replace("replicas = 2", "replicas = 2\nrequirements = ['min_write_latency']");
    fs::write(path.join("terrace.toml"), changed).unwrap();
    let store = Store::open(&path).unwrap();
    store.sync().unwrap();
    assert_eq!(stored(&store.locate(b"d/dense").unwrap()), stored(&before));

    // What is near is to be read without decoding, however cold it is.
    store.tune(b"d", false).unwrap();
    let near = store.locate(b"d/near").unwrap();
    let quick = near.extents.iter().flat_map(|e| &e.replicas).filter(|replica| replica.tier == "quick");
    assert!(quick.clone().count() == near.extents.len() && quick.into_iter().all(|r| r.encoding == "none"));

    // What is written into an object is wanted as the object is.
    let whole = stored(&before);
    store.write_at(b"d/dense", 0, &bytes(), &PutOptions::default()).unwrap();
    store.sync().unwrap();
    assert!(stored(&store.locate(b"d/dense").unwrap()) < whole * 5 / 4);
}

#[test]
fn rules_that_change_hold_at_once_where_the_store_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    put(&store, "few/before");
    let path = dir.path().join("store/terrace.toml");
    let text = fs::read_to_string(&path).unwrap();
    let one = |key: &str| replicas(&store, key).iter().all(|tiers| tiers.len() == 1);
    fs::write(&path, format!("{text}[[rule]]\nprefix = 'few'\nreplicas = 1\n")).unwrap();
    put(&store, "few/after");
    assert!(one("few/after"), "{:?}", replicas(&store, "few/after"));
    store.sync().unwrap();
    assert!(one("few/before"), "{:?}", replicas(&store, "few/before"));
    // Rules that cannot be followed leave those that hold.
    for wrong in ["[[rule]]\nprefix = 'few'\ntiers = ['nowhere']\n", "[[rule\n"] {
        fs::write(&path, format!("{text}{wrong}")).unwrap();
        put(&store, "few/again");
        assert!(one("few/again"), "{:?}", replicas(&store, "few/again"));
    }
    fs::write(&path, text).unwrap();
    put(&store, "few/again");
    assert!(!one("few/again"));
}

/// Rules that want fewer replicas dropped the good ones, and left bad ones, even if the last scrub had found them.
#[test]
fn rules_take_no_good_replica_away_beside_bad_ones() {
    for (renames, damaged) in [(false, "a"), (true, "a"), (false, "quick"), (true, "quick")] {
        let dir = tempfile::tempdir().unwrap();
        let rule = "[[rule]]\nprefix = 'old'\nreplicas = 1\n";
        let store = new_store_with(dir.path(), if renames { rule } else { "" });
        // The planner then keeps the replica that is quicker to read.
        for name in ["k/1", "k/2"] {
            store
                .put_bytes(
                    name.as_bytes(),
                    &bytes(),
                    &PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() },
                )
                .unwrap();
        }
        store.sync().unwrap();
        for folder in [damaged, if damaged == "a" { "b" } else { "quick" }] {
            for entry in fs::read_dir(dir.path().join(folder).join("segments")).into_iter().flatten() {
                let file = fs::File::options().write(true).open(entry.unwrap().path()).unwrap();
                for part in 0..file.metadata().unwrap().len() / 1000 {
                    file.write_all_at(&[0x5a; 10], part * 1000).unwrap();
                }
            }
        }
        let file = store.dir().join("terrace.toml");
        match renames {
            true => ["1", "2"].iter().for_each(|name| {
                store.rename(format!("k/{name}").as_bytes(), format!("old/{name}").as_bytes()).unwrap()
            }),
            false => {
                let text = fs::read_to_string(&file).unwrap();
                fs::write(&file, text.replacen("default = 2", "default = 1", 1)).unwrap();
            }
        }
        store.sync().unwrap();
        for name in ["1", "2"] {
            let key = format!("{}/{name}", if renames { "old" } else { "k" });
            assert!(store.get(key.as_bytes()).unwrap() == bytes(), "{key}, renamed {renames}, damaged {damaged}");
        }
    }
}

/// The part that objects follow of a configuration, as the store's note has it.
fn noted(store: &Store) -> String {
    fs::read_to_string(store.dir().join("rules")).unwrap().split_once('\n').unwrap().1.to_owned()
}

/// When the rules changed again while objects followed the first change, those that had done so never followed the second one.
#[test]
fn rules_that_change_twice_are_followed_by_all() {
    for last in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'a'\nreplicas = 1\n");
        for number in 0..3 {
            put(&store, &format!("a/{number}"));
        }
        store.sync().unwrap();
        let first = noted(&store);
        set_replicas(&store, 2);
        store.sync().unwrap();
        assert_eq!(replicas(&store, "a/1")[0].len(), 2);
        // As if that had been interrupted after these objects.
        let hex: String = b"a/2".iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(store.dir().join("rules"), format!("{hex}\n{}\n# earlier rules\n{first}", noted(&store))).unwrap();
        set_replicas(&store, last);
        store.sync().unwrap();
        for number in 0..3 {
            let replicas = replicas(&store, &format!("a/{number}"));
            assert!(replicas.iter().all(|tiers| tiers.len() == usize::from(last)), "{replicas:?}, wanted {last}");
        }
    }
}

/// No bytes; when they are read, the rules change, and another process follows them.
struct ChangesRules<'s> {
    store: &'s Store,
    replicas: u8,
}

impl Read for ChangesRules<'_> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        set_replicas(self.store, self.replicas);
        Store::open(self.store.dir()).unwrap().sync().unwrap();
        Ok(0)
    }
}

/// A write that was planned by the old rules and committed after others had followed the new ones never followed them.
#[test]
fn what_is_written_while_the_rules_change_follows_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'a'\nreplicas = 2\n");
    let first = bytes();
    let rest = ChangesRules { store: &store, replicas: 1 };
    store.put(b"a/1", first.as_slice().chain(rest), &PutOptions::default()).unwrap();
    store.sync().unwrap();
    let replicas = replicas(&store, "a/1");
    assert!(replicas.iter().all(|tiers| tiers.len() == 1), "{replicas:?}");
}

/// A power cut emptied the note, and objects that the removed rules had changed were taken for such that had followed no rules.
#[test]
fn a_removed_rule_is_followed_where_the_note_of_the_rules_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let rule = "[[rule]]\nprefix = 'few'\nreplicas = 1\ntiers = ['slow']\n";
    let store = new_store_with(dir.path(), rule);
    for key in ["few/a", "other/a"] {
        put(&store, key);
    }
    store.sync().unwrap();
    let other = format!("{:?}", store.locate(b"other/a").unwrap());
    drop(store);
    let path = dir.path().join("store/terrace.toml");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rule) = text.split_once("[[rule]]").unwrap();
    let after = rule.find("[[tier]]").map_or("", |tiers| &rule[tiers..]);
    fs::write(&path, format!("{before}{after}")).unwrap();
    fs::write(dir.path().join("store/rules"), "").unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.sync().unwrap();
    let replicas = replicas(&store, "few/a");
    assert!(replicas.iter().all(|tiers| *tiers == ["quick", "slow"]), "{replicas:?}");
    assert_eq!(format!("{:?}", store.locate(b"other/a").unwrap()), other, "it is as the rules want");
}

/// Objects were planned by rules that were taken back before any process had noted them, and never followed the first ones again.
#[test]
fn what_was_planned_by_rules_that_were_taken_back_follows_those_that_are_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'a'\nreplicas = 1\n");
    put(&store, "a/1");
    store.sync().unwrap();
    // No background thread follows rules meanwhile.
    let held = hold_mover(dir.path());
    set_replicas(&store, 3);
    put(&store, "a/2");
    let mut batch = store.batch();
    batch.put(b"a/3", &bytes(), &PutOptions::default()).unwrap();
    batch.commit().unwrap();
    store.write_at(b"a/4", 0, &bytes(), &PutOptions::default()).unwrap();
    set_replicas(&store, 1);
    drop(held);
    store.sync().unwrap();
    for key in ["a/1", "a/2", "a/3", "a/4"] {
        assert!(replicas(&store, key).iter().all(|tiers| tiers.len() == 1), "{key}: {:?}", replicas(&store, key));
    }
}
