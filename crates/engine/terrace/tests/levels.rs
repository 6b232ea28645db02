//! Levels of settings: an operation, its application, a rule, and the store. The highest level that names a setting decides it.

#![allow(clippy::unwrap_used)]

mod common;

use terrace::{Ack, Config, Files, PutOptions, Requirement, Store};

fn required(requirement: Requirement) -> PutOptions {
    PutOptions { requirements: vec![requirement.into()], ..PutOptions::default() }
}

/// An application asked for `ack = durable`. As soon as one of its writes named any requirement, the whole of the
/// application's settings was dropped: the write returned with nothing synced.
#[test]
fn a_requirement_of_an_operation_leaves_its_applications_acknowledgement() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    let application = PutOptions { ack: Some(Ack::Durable), replicas: Some(1), ..PutOptions::default() };
    for requirement in Requirement::ALL {
        let key = requirement.to_string();
        let options = required(requirement).over(&application);
        let receipt = store.put_bytes(key.as_bytes(), &[7; 100_000], &options).unwrap();
        let own = terrace_plan::policy::Ask { requirements: vec![requirement.into()], ..Default::default() };
        let none = Default::default();
        let (alone, _) = terrace_plan::policy::resolve(&own, &none, &none, Default::default());
        let asks_for_less =
            ["max_write_availability", "min_write_latency", "max_write_bandwidth"].contains(&key.as_str());
        assert_eq!(receipt.durable, !asks_for_less, "{key}");
        // A requirement that says how many replicas says so above the application, too.
        let expected = if alone.replicas == 3 { 1 } else { alone.replicas };
        assert_eq!(receipt.asked, expected, "{key}");
        let again = store.write_at(key.as_bytes(), 10, &[8; 10], &options).unwrap();
        assert_eq!((again.durable, again.asked), (!asks_for_less, expected), "{key}, a range");
    }
}

/// An application asked by a requirement, and a write's requirement that conflicts with it over one setting dropped all of it.
#[test]
fn a_conflict_over_one_setting_leaves_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    let application = required(Requirement::MaxDurability);
    let put = |key: &[u8], requirement| {
        let receipt = store.put_bytes(key, &[7; 100_000], &required(requirement).over(&application)).unwrap();
        let replicas = store.locate(key).unwrap().extents[0].replicas.clone();
        assert!(replicas.iter().all(|replica| replica.tier == "disk"), "{replicas:?}");
        (receipt.asked, receipt.durable)
    };
    assert_eq!(put(b"small", Requirement::MinStorage), (1, true), "the number of replicas gives way");
    assert_eq!(put(b"quick", Requirement::MinWriteLatency), (5, false), "when the write returns gives way");
}

/// The same for what a mount or an application's files were opened with, and what an object was put with.
#[test]
fn what_an_object_was_put_with_leaves_what_files_are_opened_with() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    store.put_bytes(b"dense", &[7; 100_000], &required(Requirement::MinStorage)).unwrap();
    let files = Files::with(&store, PutOptions { tiers: Some(vec!["disk".into()]), ..PutOptions::default() }).unwrap();
    let handle = files.open(b"dense").unwrap();
    handle.write_at(0, &[9; 70_000]).unwrap();
    handle.sync().unwrap();
    let tiers: Vec<String> =
        store.locate(b"dense").unwrap().extents[0].replicas.iter().map(|r| r.tier.clone()).collect();
    assert_eq!(tiers, ["disk"], "one replica, as the object was put with; on the tier that the files are for");
}

#[test]
fn what_several_levels_ask_for_is_kept_with_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    let application = PutOptions { tiers: Some(vec!["disk".into()]), ack: Some(Ack::Durable), ..PutOptions::default() };
    let options = required(Requirement::MinStorage).over(&application);
    store.put_bytes(b"key", &[7; 100_000], &options).unwrap();
    let kept = PutOptions::kept_with(b"key", &store.stat(b"key").unwrap()).unwrap();
    assert_eq!(kept, options.lasting());
    assert_eq!(kept.below.unwrap().tiers, application.tiers);
    // A later write that asks for nothing goes by it.
    let receipt = store.write_at(b"key", 0, &[8; 100_000], &PutOptions::default()).unwrap();
    assert_eq!((receipt.asked, store.locate(b"key").unwrap().extents[0].replicas[0].tier.as_str()), (1, "disk"));
}

/// `replicas = 0` was taken for 1.
#[test]
fn no_replicas_at_all_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = common::new_store(dir.path());
    let none = PutOptions { replicas: Some(0), ..PutOptions::default() };
    let refused = |error: String| assert!(error.contains("replicas = 0"), "{error}");
    refused(store.put_bytes(b"a", b"a", &none).unwrap_err().to_string());
    refused(store.write_at(b"a", 0, b"a", &none).unwrap_err().to_string());
    refused(store.put_bytes(b"a", b"a", &required(Requirement::MinStorage).over(&none)).unwrap_err().to_string());
    refused(Files::with(&store, none).err().unwrap().to_string());
    assert!(store.stat(b"a").is_err());
    let tier = common::tier(dir.path(), "disk", &["c"], "");
    for text in ["[store]\nreplicas = { default = 0 }\n", "[[rule]]\nprefix = 'a'\nreplicas = 0\n"] {
        refused_config(&format!("{text}{tier}"), "replicas");
    }
}

/// The planner tells 64 tiers apart.
#[test]
fn more_tiers_than_can_be_planned_for_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tier = |n: usize| common::tier(dir.path(), &format!("tier {n}"), &[&format!("t{n}")], "");
    let tiers: Vec<String> = (0..65).map(tier).collect();
    refused_config(&tiers.concat(), "tier \"tier 64\" is number 65, and a store has at most 64");
    assert!(Config::parse(&tiers[..64].concat(), "test").is_ok());
    let store = common::store_of(dir.path(), &tiers[..60]);
    let home = store.dir().to_owned();
    drop(store);
    let more = Config::parse_tiers(&tiers[60..].concat(), "test").unwrap();
    let refused = Store::add_tiers(&home, more, None).unwrap_err().to_string();
    assert!(refused.contains("number 65"), "{refused}");
    assert_eq!(Store::open(&home).unwrap().status().unwrap().tiers.len(), 60);
}

fn refused_config(text: &str, says: &str) {
    let error = Config::parse(text, "test").unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

/// A `max_latency` that no target has made writes wait half a minute and fail for "no space"; under
/// `max_write_availability` it gave way without a word.
#[test]
fn a_latency_that_no_target_has_gives_way_and_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let slow = "throttle = { latency = '5ms' }";
    let store = common::store_of(dir.path(), &[common::tier(dir.path(), "disk", &["a", "b"], slow)]);
    let within = |seconds: f64| PutOptions { max_latency: Some(seconds), ..PutOptions::default() };
    assert!(store.put_bytes(b"a", &[1; 100_000], &within(1e-6)).unwrap().is_slow);
    assert!(store.write_at(b"a", 0, &[2; 100_000], &PutOptions::default()).unwrap().is_slow, "as it was put");
    assert!(!store.put_bytes(b"b", &[1; 100_000], &within(1.0)).unwrap().is_slow);
    assert!(!store.put_bytes(b"c", &[1; 100_000], &PutOptions::default()).unwrap().is_slow);
}
