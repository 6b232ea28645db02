//! The resolution of wishes.

use super::*;
use crate::policy::Budget;

fn asks(names: &[&str]) -> Ask {
    Ask { requirements: names.iter().map(|name| name.parse().expect("a requirement")).collect(), ..Ask::default() }
}

fn resolved(levels: [&[&str]; 3]) -> (Policy, Vec<String>) {
    let [operation, application, system] = levels.map(asks);
    let (policy, log) = resolve(&operation, &application, &system, Replicas::default());
    (policy, log.iter().map(ToString::to_string).collect())
}

#[test]
fn without_requirements_the_papers_default_applies() {
    let (policy, log) = resolved([&[], &[], &[]]);
    assert_eq!(policy, Policy::default());
    assert!(log.is_empty());
}

#[test]
fn every_row_of_the_table_applies_by_itself() {
    let weights = |c, d, r| Weights::new(c, d, r).expect("weights");
    for (name, replicas, ack, [c, d, r]) in [
        ("min_read_latency", 5, Ack::Placed, [0.0, 1.0, 0.0]),
        ("max_read_bandwidth", 3, Ack::Placed, [0.0, 0.5, 0.5]),
        ("max_read_availability", 5, Ack::Placed, [1.0, 1.0, 1.0]),
        ("max_write_availability", 3, Ack::Placed, [1.0, 1.0, 1.0]),
        ("max_durability", 5, Ack::Durable, [1.0, 1.0, 1.0]),
        ("max_load_balance", 3, Ack::Placed, [1.0, 1.0, 1.0]),
        ("min_energy", 1, Ack::Placed, [0.0, 0.0, 1.0]),
        ("min_write_latency", 3, Ack::Placed, [1.0, 0.0, 0.0]),
        ("max_write_bandwidth", 3, Ack::Placed, [0.5, 0.0, 0.5]),
        ("min_storage", 1, Ack::Placed, [0.0, 0.0, 1.0]),
    ] {
        let (policy, log) = resolved([&[], &[name], &[]]);
        assert_eq!((policy.replicas, policy.ack), (replicas, ack), "{name}");
        assert_eq!((policy.first, policy.rest), (weights(c, d, r), weights(c, d, r)), "{name}");
        assert_eq!(log, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_number_sets_the_replicas_within_the_range() {
    assert_eq!(resolved([&["max_durability=4"], &[], &[]]).0.replicas, 4);
    let (policy, log) = resolved([&["max_durability=9"], &[], &[]]);
    assert_eq!(policy.replicas, 5);
    assert_eq!(log, ["9 replicas are out of the configured range; 5 are planned"]);
}

#[test]
fn of_conflicting_requirements_the_higher_level_wins_then_the_first() {
    let (policy, log) = resolved([&["min_write_latency"], &[], &["max_durability"]]);
    assert_eq!((policy.ack, policy.replicas), (Ack::Placed, 5));
    let holds =
        "when a write returns: min_write_latency of the operation level holds, not max_durability of the system level";
    assert_eq!(log, [holds]);
    let (policy, log) = resolved([&["max_durability", "min_storage"], &[], &[]]);
    assert_eq!((policy.ack, policy.replicas, policy.first), (Ack::Durable, 5, Weights::EQUAL));
    let dropped =
        "min_storage (operation) is dropped: it conflicts with max_durability (operation) over the number of replicas";
    assert_eq!(log, [dropped]);
}

/// An operation's `min_storage` dropped all of its application's `max_durability`, also the acknowledgement.
#[test]
fn a_requirement_keeps_the_settings_that_a_conflicting_higher_level_leaves_open() {
    let (policy, log) = resolved([&["min_storage"], &["max_durability=4"], &[]]);
    assert_eq!((policy.replicas, policy.ack, policy.is_all_persistent()), (1, Ack::Durable, true));
    assert_eq!(policy.first, MIN_STORAGE_WEIGHTS);
    let holds =
        "the number of replicas: min_storage of the operation level holds, not max_durability of the application level";
    assert_eq!(log, [holds]);
    let (policy, _) = resolved([&["max_durability"], &[], &["min_energy"]]);
    assert_eq!((policy.replicas, policy.first, policy.energy), (5, MIN_STORAGE_WEIGHTS, true));
    // Nothing of it is left, so it does not turn the seconds of the operation's weights into joules either.
    let (policy, log) = resolved([&["min_read_latency"], &["min_energy"], &[]]);
    assert!(!policy.energy && log[0].starts_with("min_energy (application) is dropped"), "{log:?}");
}

#[test]
fn a_dropped_requirement_drops_no_other() {
    let (policy, log) = resolved([&["max_durability", "min_storage"], &[], &["max_load_balance"]]);
    assert!(policy.spread);
    assert_eq!(log.len(), 1, "{log:?}");
}

#[test]
fn fast_reads_and_small_storage_combine() {
    for levels in [[&["min_read_latency", "min_storage"][..], &[], &[]], [&["min_storage"], &[], &["min_read_latency"]]]
    {
        let (policy, log) = resolved(levels);
        assert_eq!((policy.replicas, policy.first, policy.rest), (3, READ_LATENCY_WEIGHTS, MIN_STORAGE_WEIGHTS));
        assert_eq!(log.len(), 1, "{log:?}");
        assert!(log[0].contains("go together"));
    }
}

#[test]
fn complements_of_a_level_add_up_and_hide_those_below() {
    let (policy, log) = resolved([&["min_read_latency", "max_write_bandwidth"], &[], &["min_write_latency"]]);
    assert_eq!(policy.first, Weights { compress: 0.25, decompress: 0.5, ratio: 0.25 });
    let [added, hidden] = log.try_into().expect("two");
    assert_eq!(added, "the weights of min_read_latency and max_write_bandwidth (operation) add up");
    let holds = "the weights: min_read_latency of the operation level holds, not min_write_latency of the system level";
    assert_eq!(hidden, holds);
}

#[test]
fn a_level_switches_off_requirements_of_lower_levels() {
    let (policy, log) = resolved([&["max_durability=false"], &["max_durability"], &[]]);
    assert_eq!(policy, Policy::default());
    assert_eq!(log, ["max_durability (application) is switched off by a level above"]);
}

#[test]
fn explicit_settings_override_requirements_of_their_level() {
    let operation = Ask { replicas: Some(2), ack: Some(Ack::Replicated), ..asks(&["max_durability"]) };
    let (policy, log) = resolve(&operation, &Ask::default(), &Ask::default(), Replicas::default());
    assert_eq!((policy.replicas, policy.ack, log.len()), (2, Ack::Replicated, 2));
    let system = Ask { weights: Some(Weights::ARCHIVAL), ..Ask::default() };
    let (policy, _) = resolve(&asks(&["min_read_latency"]), &Ask::default(), &system, Replicas::default());
    assert_eq!(policy.first, READ_LATENCY_WEIGHTS, "a requirement of a higher level wins over what a lower one says");
}

#[test]
fn a_budget_requests_as_many_replicas_as_fit() {
    let application = Ask { budget: Some(Budget(3.0)), ..Ask::default() };
    let range = Replicas { max: 9, ..Replicas::default() };
    let (policy, _) = resolve(&Ask::default(), &application, &Ask::default(), range);
    assert_eq!((policy.replicas, policy.budget), (9, Some(Budget(3.0))));
}

#[test]
fn every_conflict_is_decided_by_the_first_requirement_and_reported() {
    let mut conflicts = 0;
    for first in Requirement::ALL {
        for second in Requirement::ALL {
            let Some(over) = first.conflict(second) else { continue };
            conflicts += 1;
            let names = [first, second].map(|requirement| requirement.to_string());
            let [alone, lower] = names.each_ref().map(|name| resolved([&[name], &[], &[]]).0);
            let (policy, log) = resolved([&[&names[0], &names[1]], &[], &[]]);
            assert_eq!(policy, alone, "{second} has no effect");
            let dropped = format!("{second} (operation) is dropped: it conflicts with {first} (operation) over {over}");
            assert_eq!(log, [dropped]);
            // Of two levels, the lower one decides what the higher one leaves open.
            let (policy, log) = resolved([&[&names[0]], &[&names[1]], &[]]);
            let sets = first.row();
            let of = |is_set: bool| if is_set { alone } else { lower };
            assert_eq!(policy.replicas, of(sets.replicas.is_some()).replicas, "{first} over {second}");
            assert_eq!(policy.ack, of(sets.ack.is_some()).ack, "{first} over {second}");
            assert_eq!(policy.first, of(sets.weights.is_some()).first, "{first} over {second}");
            assert!(log.iter().any(|line| line.contains(&names[0]) && line.contains(&names[1])), "{log:?}");
        }
    }
    assert_eq!(conflicts, 18);
}

#[test]
fn every_complement_applies_in_full_and_is_reported() {
    let (policy, log) = resolved([&["max_write_availability"], &["max_load_balance"], &[]]);
    assert!(policy.any_target && policy.spread);
    let serve = "max_write_availability and max_load_balance complement each other: both serve where replicas go";
    assert_eq!(log, [serve]);
    let (policy, log) = resolved([&["min_energy", "min_storage"], &[], &[]]);
    assert_eq!((policy.replicas, policy.first, policy.energy), (1, MIN_STORAGE_WEIGHTS, true));
    assert_eq!(log, ["min_energy and min_storage complement each other: both serve the weights"]);
    let (policy, log) = resolved([&["max_read_availability", "max_durability"], &[], &[]]);
    assert_eq!((policy.replicas, policy.ack), (5, Ack::Durable));
    assert_eq!(
        log,
        ["max_read_availability and max_durability complement each other: both serve the number of replicas"]
    );
}

/// Regression: `max_durability` with another acknowledgement put replica 0 into memory.
#[test]
fn max_durability_keeps_to_persistent_targets_whenever_a_write_returns() {
    let durable = asks(&["max_durability=2"]);
    let (none, at_once) = (Ask::default(), Ask { ack: Some(Ack::Placed), ..durable.clone() });
    let range = Replicas { min: 1, max: 5, default: 3 };
    for (policy, _) in [resolve(&at_once, &none, &none, range), resolve(&none, &at_once, &none, range)] {
        assert_eq!((policy.ack, policy.replicas, policy.is_all_persistent()), (Ack::Placed, 2, true));
    }
    assert!(!resolved([&["min_storage", "max_durability"], &[], &[]]).0.is_all_persistent());
    // A rule that allows memory outright overrides the store's requirements, but not the operation's.
    let volatile = Ask { volatile: Some(true), ack: Some(Ack::Placed), ..none.clone() };
    assert!(!resolve(&none, &volatile, &durable, range).0.is_all_persistent());
    assert!(resolve(&durable, &volatile, &none, range).0.is_all_persistent());
}
