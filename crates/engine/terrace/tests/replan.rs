//! Replanning of stored objects: cold ones become denser, and all follow changed rules.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::hold_mover;
use terrace::files::Files;
use terrace::report::{FindingCode, Location, ReplicaState};
use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::Random;

const TIERS_TOML: &str = "[[tier]]\nname = 'quick'\nkind = 'directory'\ntargets = ['DIR/quick']\n\
     throttle = { read = '400MB/s', write = '400MB/s' }\n\
     [[tier]]\nname = 'slow'\nkind = 'directory'\ntargets = ['DIR/a', 'DIR/b']\n\
     throttle = { read = '100MB/s', write = '100MB/s' }\n";

fn new_store(dir: &Path) -> Store {
    new_store_with(dir, "")
}

fn new_store_with(dir: &Path, rules: &str) -> Store {
    let text = format!("[store]\nreplicas = {{ default = 2 }}\n{TIERS_TOML}{rules}")
        .replace("DIR", &dir.display().to_string());
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// Text of some thousand words, which encodings make shorter by different shares.
fn bytes() -> Vec<u8> {
    let mut random = Random::new(7);
    (0..150_000).flat_map(|_| format!("word{} ", random.below(3000)).into_bytes()).collect()
}

fn put(store: &Store, key: &str) {
    let options = PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(key.as_bytes(), &bytes(), &options).unwrap();
}

fn stored(location: &Location) -> u64 {
    location.extents.iter().flat_map(|extent| &extent.replicas).map(|replica| replica.stored).sum()
}

/// The tiers of the replicas that are there, of each extent.
fn replicas(store: &Store, key: &str) -> Vec<Vec<String>> {
    let location = store.locate(key.as_bytes()).unwrap();
    let of = |extent: &terrace::report::ExtentLocation| {
        let there = extent.replicas.iter().filter(|r| r.state == ReplicaState::Present);
        let mut tiers: Vec<String> = there.map(|r| r.tier.clone()).collect();
        tiers.sort();
        tiers
    };
    location.extents.iter().map(of).collect()
}

#[test]
fn what_is_cold_is_encoded_more_densely_where_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    put(&store, "d/cold");
    put(&store, "d/hot");
    for _ in 0..3 {
        store.get(b"d/hot").unwrap();
    }
    let before = ["d/cold", "d/hot"].map(|key| store.locate(key.as_bytes()).unwrap());
    let moved = store.tune(b"d", false).unwrap();
    assert!(moved.made > 0);
    let after = ["d/cold", "d/hot"].map(|key| store.locate(key.as_bytes()).unwrap());
    assert!(stored(&after[0]) * 20 < stored(&before[0]) * 17, "{} of {}", stored(&after[0]), stored(&before[0]));
    assert_eq!(stored(&after[1]), stored(&before[1]), "what is hot stays");
    assert!(replicas(&store, "d/cold").iter().all(|tiers| *tiers == ["quick", "slow"]));
    assert_eq!(store.tune(b"d", false).unwrap().made, 0, "it is as dense as can be");
    assert!(store.tune(b"d", true).unwrap().made > 0, "what is hot, too");
    for key in ["d/cold", "d/hot"] {
        assert!(store.get(key.as_bytes()).unwrap() == bytes());
    }
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.away), (0, 0, 0));
}

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

/// Changes the number of replicas of the first rule.
fn set_replicas(store: &Store, replicas: u8) {
    let file = store.dir().join("terrace.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rule) = text.split_once("[[rule]]").unwrap();
    let at = rule.find("replicas = ").unwrap() + "replicas = ".len();
    fs::write(&file, format!("{before}[[rule]]{}{replicas}{}", &rule[..at], &rule[at + 1..])).unwrap();
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

/// It took over the number of replicas of its source.
#[test]
fn a_copy_of_plain_files_follows_the_rules_of_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[[rule]]\nprefix = 'a'\nreplicas = 1\nlayout = 'plain'\n[[rule]]\nprefix = 'b'\nlayout = 'plain'\n";
    let store = new_store_with(dir.path(), rules);
    put(&store, "a/1");
    store.copy(b"a/1", b"b/1").unwrap();
    store.sync().unwrap();
    assert!(replicas(&store, "b/1").iter().all(|tiers| tiers.len() == 2), "{:?}", replicas(&store, "b/1"));
    assert!(store.get(b"b/1").unwrap() == bytes());
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

/// Objects with replicas on a tier that was away did not follow rules that had changed meanwhile when it was back.
#[test]
fn what_is_on_a_tier_that_is_away_follows_changed_rules_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'a'\nreplicas = 2\n");
    put(&store, "a/1");
    store.sync().unwrap();
    fs::rename(dir.path().join("quick"), dir.path().join("elsewhere")).unwrap();
    set_replicas(&store, 3);
    // Says that the tier is away, and does the rest.
    store.sync().unwrap_err();
    assert!(store.dir().join("unplanned").exists());
    drop(store);
    fs::rename(dir.path().join("elsewhere"), dir.path().join("quick")).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.sync().unwrap();
    let replicas = replicas(&store, "a/1");
    assert!(replicas.iter().all(|tiers| *tiers == ["quick", "slow", "slow"]), "{replicas:?}");
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

/// The only target for the third replica was away when the rules changed. The object counted as done, and had two for good.
#[test]
fn what_had_too_few_places_follows_changed_rules_when_a_tier_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'a'\nreplicas = 1\n");
    let slow = PutOptions { tiers: Some(vec!["slow".into()]), ack: Some(Ack::Replicated), ..PutOptions::default() };
    store.put_bytes(b"a/1", &bytes(), &slow).unwrap();
    put(&store, "a/2");
    store.sync().unwrap();
    let text = fs::read_to_string(store.dir().join("terrace.toml")).unwrap();
    fs::rename(dir.path().join("quick"), dir.path().join("elsewhere")).unwrap();
    fs::write(store.dir().join("terrace.toml"), text.replace("replicas = 1\n", "replicas = 3\n")).unwrap();
    store.sync().unwrap_err();
    drop(store);
    fs::rename(dir.path().join("elsewhere"), dir.path().join("quick")).unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.sync().unwrap();
    let replicas = replicas(&store, "a/2");
    assert!(replicas.iter().all(|tiers| tiers.len() == 3), "{replicas:?}");
    assert!(!store.dir().join("unplanned").exists());
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

/// The tier that a changed rule names was full. The objects counted as done, and stayed where they were when it had room.
#[test]
fn what_found_no_room_follows_changed_rules_once_there_is_some() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let text = format!(
        "[[tier]]\nname = 'small'\nkind = 'directory'\ntargets = ['{d}/small']\ncapacity = '4MiB'\n\
         [[tier]]\nname = 'big'\nkind = 'directory'\ntargets = ['{d}/big']\n\
         [[rule]]\nprefix = 'full'\ntiers = ['small']\n[[rule]]\nprefix = 'a'\ntiers = ['big']\n"
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let noise = terrace_testkit::noise(3 << 20, 1);
    for key in [&b"full/1"[..], b"a/1"] {
        store.put_bytes(key, &noise, &PutOptions::default()).unwrap();
    }
    store.sync().unwrap();
    let file = store.dir().join("terrace.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("tiers = [\"big\"]"), "{text}");
    fs::write(&file, text.replace("tiers = [\"big\"]", "tiers = [\"small\"]")).unwrap();
    store.sync().unwrap();
    assert!(replicas(&store, "a/1").iter().all(|tiers| *tiers == ["big"]), "{:?}", replicas(&store, "a/1"));
    assert_eq!(store.status().unwrap().unplanned.waiting, 1);
    let codes: Vec<_> = store.health().unwrap().findings.iter().map(|finding| finding.code).collect();
    assert!(codes.contains(&FindingCode::Waiting), "{codes:?}");
    store.remove(b"full/1").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    store.sync().unwrap();
    assert!(replicas(&store, "a/1").iter().all(|tiers| *tiers == ["small"]), "{:?}", replicas(&store, "a/1"));
    assert_eq!(store.status().unwrap().unplanned.objects, 0);
}

/// A drain moved replicas to any tier, though another one that the rule allows had room.
#[test]
fn what_is_drained_stays_on_the_tiers_that_its_rule_names() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let tier = |name: &str| format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{d}/{name}']\n");
    let rule = "[[rule]]\nprefix = 'a'\nreplicas = 1\ntiers = ['first', 'third']\n";
    let text = format!("{}{}{}{rule}", tier("first"), tier("second"), tier("third"));
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    store.put_bytes(b"a/1", &bytes(), &PutOptions::default()).unwrap();
    store.sync().unwrap();
    for (drained, left) in [("first", "third"), ("third", "first")] {
        store.drain(drained).unwrap();
        store.sync().unwrap();
        assert!(replicas(&store, "a/1").iter().all(|tiers| *tiers == [left]), "{:?}", replicas(&store, "a/1"));
    }
}

/// The copy took the frames that both share to its tiers, which the rule for the first does not allow.
#[test]
fn copies_are_on_the_tiers_that_their_rules_name() {
    let dir = tempfile::tempdir().unwrap();
    let rule = |prefix: &str, tier: &str| format!("[[rule]]\nprefix = '{prefix}'\nreplicas = 1\ntiers = ['{tier}']\n");
    let rules = format!("{}{}{}", rule("a", "quick"), rule("b", "slow"), rule("c", "quick"));
    let store = new_store_with(dir.path(), &rules);
    let check = |wanted: &[(&str, &str)]| {
        store.sync().unwrap();
        for (key, tier) in wanted {
            assert!(replicas(&store, key).iter().all(|tiers| *tiers == [*tier]), "{key}: {:?}", replicas(&store, key));
            assert!(store.get(key.as_bytes()).unwrap() == bytes());
        }
    };
    put(&store, "a/1");
    store.copy(b"a/1", b"b/1").unwrap();
    store.copy(b"a/1", b"c/1").unwrap();
    check(&[("a/1", "quick"), ("b/1", "slow"), ("c/1", "quick")]);
    // One of two owners of the same frames is renamed.
    store.copy(b"a/1", b"a/2").unwrap();
    store.rename(b"a/2", b"b/2").unwrap();
    check(&[("a/1", "quick"), ("b/2", "slow"), ("c/1", "quick")]);
    // A rule for one of the owners changes.
    let file = store.dir().join("terrace.toml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, third) = text.rsplit_once("\"quick\"]").unwrap();
    fs::write(&file, format!("{before}\"slow\"]{third}")).unwrap();
    check(&[("a/1", "quick"), ("b/1", "slow"), ("c/1", "slow")]);
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.miscounted), (0, 0));
}

/// Makes a store with four tiers, one of them small, and these rules.
fn store_with_small_third(dir: &Path, rules: &[(&str, &str)]) -> Store {
    let d = dir.display();
    let tier = |(name, more): (&str, &str)| {
        format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{d}/{name}']\n{more}")
    };
    let tiers = [("first", ""), ("second", ""), ("small", "capacity = '4MiB'\n"), ("last", "")].map(tier).concat();
    let rules = rules.iter().map(|(prefix, rule)| format!("[[rule]]\nprefix = '{prefix}'\n{rule}\n"));
    let text = format!("{tiers}{}", rules.collect::<String>());
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// Objects that had followed the rule to its tier made room there for the next ones, and had one replica left.
#[test]
fn what_follows_a_rule_to_a_full_tier_keeps_its_replicas() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_small_third(dir.path(), &[("p", "replicas = 2\ntiers = ['first', 'second']")]);
    for number in 0..8 {
        let noise = terrace_testkit::noise(1 << 20, number);
        store.put_bytes(format!("p/{number}").as_bytes(), &noise, &PutOptions::default()).unwrap();
    }
    store.sync().unwrap();
    let file = store.dir().join("terrace.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("tiers = [\"first\", \"second\"]", "tiers = [\"small\", \"last\"]")).unwrap();
    for _ in 0..3 {
        let synced = store.sync();
        assert!(matches!(synced, Err(terrace::Error::StillOwed { is_full: true, .. })), "{synced:?}");
        for number in 0..8 {
            let key = format!("p/{number}");
            assert!(replicas(&store, &key).iter().all(|tiers| tiers.len() == 2), "{key}: {:?}", replicas(&store, &key));
        }
    }
}

/// Replicas on a full tier moved to tiers that their rule does not allow.
#[test]
fn what_a_rule_keeps_on_a_full_tier_stays_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_with_small_third(dir.path(), &[("p", "replicas = 1\ntiers = ['small']"), ("q", "replicas = 2")]);
    for number in 0..3 {
        let noise = terrace_testkit::noise(1 << 20, number);
        store.put_bytes(format!("p/{number}").as_bytes(), &noise, &PutOptions::default()).unwrap();
    }
    let begun = std::time::Instant::now();
    let full = store.put_bytes(b"p/more", &terrace_testkit::noise(2 << 20, 3), &PutOptions::default());
    assert!(matches!(full, Err(terrace::Error::NoSpace { .. })), "{full:?}");
    println!("a write that no tier can take has waited {:?}", begun.elapsed());
    store.sync().unwrap();
    for number in 0..3 {
        assert!(replicas(&store, &format!("p/{number}")).iter().all(|tiers| *tiers == ["small"]));
    }
}

/// A copy whose rule allows memory took the frames that it shared with a durable object there, and a reboot took both.
#[test]
fn a_copy_takes_no_replica_of_its_source_away() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let text = format!(
        "[[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/disk']\n\
         [[tier]]\nname = 'other'\nkind = 'directory'\ntargets = ['{d}/other']\n\
         [[rule]]\nprefix = 'q'\nreplicas = 1\ntiers = ['disk']\n\
         [[rule]]\nprefix = 'w'\nreplicas = 1\ntiers = ['ram', 'disk']\n\
         [[rule]]\nprefix = 'v'\nreplicas = 1\ntiers = ['ram', 'disk']\nvolatile = true\n\
         [[rule]]\nprefix = 'd'\nreplicas = 2\nrequirements = ['max_durability']\n"
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    for key in ["q/1", "w/1", "d/1"] {
        store.put_bytes(key.as_bytes(), &bytes(), &durable).unwrap();
        store.copy(key.as_bytes(), format!("v/{}", &key[..1]).as_bytes()).unwrap();
        // Shared, and then renamed to other rules.
        for (number, prefix) in ["v", "n"].iter().enumerate() {
            let copy = format!("{key}-{number}");
            store.copy(key.as_bytes(), copy.as_bytes()).unwrap();
            store.rename(copy.as_bytes(), format!("{prefix}/{}{number}", &key[..1]).as_bytes()).unwrap();
        }
    }
    store.sync().unwrap();
    assert!(replicas(&store, "q/1").iter().all(|tiers| *tiers == ["disk"]), "{:?}", replicas(&store, "q/1"));
    let is_persistent = |tiers: &Vec<String>| tiers.iter().any(|tier| tier != "ram");
    assert!(replicas(&store, "w/1").iter().all(is_persistent), "{:?}", replicas(&store, "w/1"));
    assert!(replicas(&store, "d/1").iter().all(|tiers| *tiers == ["disk", "other"]), "{:?}", replicas(&store, "d/1"));
    for number in [0, 1] {
        for prefix in ["v", "n"].iter().enumerate().filter(|(at, _)| *at == number).map(|(_, prefix)| prefix) {
            for first in ["q", "w", "d"] {
                assert!(store.get(format!("{prefix}/{first}{number}").as_bytes()).unwrap() == bytes());
            }
        }
    }
    let scrubbed = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.miscounted), (0, 0));
}

/// Each command waited half a minute for room on the tier that is away, and said that the copy, which was there, had failed.
#[test]
fn a_copy_does_not_wait_for_a_tier_that_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let rules = "[[rule]]\nprefix = 'a'\nreplicas = 1\ntiers = ['slow']\n[[rule]]\nprefix = 'b'\nreplicas = 1\ntiers = ['quick']\n";
    let store = new_store_with(dir.path(), rules);
    put(&store, "a/1");
    store.copy(b"a/1", b"a/2").unwrap();
    store.sync().unwrap();
    fs::rename(dir.path().join("quick"), dir.path().join("elsewhere")).unwrap();
    store.rename(b"a/2", b"b/2").unwrap();
    store.replan_renamed().unwrap();
    assert_eq!(store.status().unwrap().unplanned.waiting, 1);
    fs::rename(dir.path().join("elsewhere"), dir.path().join("quick")).unwrap();
    drop(store);
    let store = Store::open(&dir.path().join("store")).unwrap();
    store.sync().unwrap();
    for (key, tier) in [("a/1", "slow"), ("b/2", "quick")] {
        assert!(replicas(&store, key).iter().all(|tiers| *tiers == [tier]), "{key}: {:?}", replicas(&store, key));
    }
}
