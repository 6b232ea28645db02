//! Copies follow their own rules, and take nothing from their sources.

use std::fs;

use terrace::{Ack, Config, PutOptions, Store};

use crate::{bytes, new_store_with, put, replicas};

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
