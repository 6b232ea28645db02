//! Replicas that find no place which their rule allows wait for one.

use std::fs;
use std::path::Path;

use terrace::report::FindingCode;
use terrace::{Ack, Config, PutOptions, Store};

use crate::{bytes, new_store_with, put, replicas, set_replicas};

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

/// Objects had one replica where their rule wanted three, and all was said to be safe.
#[test]
fn a_rule_that_wants_more_replicas_than_there_can_be_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let codes = |store: &Store| -> Vec<FindingCode> {
        store.health().unwrap().findings.iter().map(|finding| finding.code).collect()
    };
    let store = new_store_with(dir.path(), "[[rule]]\nprefix = 'a'\nreplicas = 3\n");
    assert!(!codes(&store).contains(&FindingCode::RuleUnmet));
    let file = store.dir().join("terrace.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("replicas = 3\n", "replicas = 3\ntiers = ['quick']\n")).unwrap();
    drop(store);
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(codes(&store).contains(&FindingCode::RuleUnmet), "{:?}", codes(&store));
}

/// A drain moved replicas into memory, though a disk that the rule does not allow had room, or one that all rules allow.
#[test]
fn what_is_drained_from_a_disk_does_not_go_into_memory() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path().display();
    let tier = |name: &str, more: &str| {
        format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{d}/{name}']\n{more}")
    };
    let disks: String = ["first", "second", "third"].map(|name| tier(name, "")).concat();
    let rule = "[[rule]]\nprefix = 'a'\ntiers = ['first', 'third']\n";
    let text = format!("[store]\nreplicas = {{ default = 2 }}\n{}{disks}{rule}", tier("ram", "persistent = false\n"));
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let durable = PutOptions { ack: Some(Ack::Durable), ..PutOptions::default() };
    for key in ["a/1", "b/1"] {
        store.put_bytes(key.as_bytes(), &bytes(), &durable).unwrap();
    }
    for drained in ["first", "second"] {
        store.drain(drained).unwrap();
        store.sync().unwrap();
        for key in ["a/1", "b/1"] {
            let there = replicas(&store, key);
            assert!(
                there.iter().all(|tiers| tiers.len() == 2 && !tiers.contains(&"ram".to_owned())),
                "{key}: {there:?}"
            );
        }
    }
}
