//! Explanations are true.

mod storage;

use proptest::prelude::*;
use storage::{BYTES_PER_MIB, expected, tiers};
use terrace_codec::ALL_ENCODINGS;
use terrace_cost::Costs;
use terrace_plan::explain::{Explanation, Verdict, explain};
use terrace_plan::plan::{Forbidden, GaveWay, Memo, Want, plan};
use terrace_plan::policy::{Ask, Budget, Policy, Replicas, resolve};
use terrace_plan::snapshot::{Snapshot, Target, Tier};

const TIER_LEVELS: [storage::Level; 3] =
    [("ram", false, 1, 2e9, 1e-6, 64), ("nvme", true, 2, 1e9, 1e-4, 64), ("pfs", true, 2, 1e8, 5e-3, 4096)];

fn codecs() -> Costs {
    Costs::new([(ALL_ENCODINGS[1], expected(700e6, 2e9, 1.5)), (ALL_ENCODINGS[2], expected(100e6, 900e6, 2.5))])
}

fn explained(want: &Want, targets: Vec<Target>, policy: &Policy) -> Explanation {
    let snapshot = Snapshot::new(tiers(&TIER_LEVELS).0, targets, 5.0).expect("a snapshot");
    let mut memo = Memo::default();
    let plan = plan(want, &snapshot, policy, &codecs(), &mut memo).ok();
    explain(want, &snapshot, policy, &codecs(), &[], plan)
}

#[test]
fn every_tier_and_encoding_has_its_row_and_its_reason() {
    let mut targets = tiers(&TIER_LEVELS).1;
    targets[1].up = false;
    targets[2].free = 300 * 4096;
    (targets[3].plain, targets[4].plain) = (true, true);
    let told = explained(&Want::bytes(2 * BYTES_PER_MIB), targets, &Policy { replicas: 2, ..Policy::default() });
    let verdicts = |replica: usize| {
        let row = |row: &terrace_plan::explain::Weighed| (row.tier.clone(), row.encoding, row.verdict);
        told.replicas[replica].weighed.iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(verdicts(0).len(), 9, "three tiers, three encodings");
    let of = |replica, tier: &str, encoding| {
        let rows = verdicts(replica);
        rows.into_iter().find(|row| row.0 == tier && row.1 == ALL_ENCODINGS[encoding]).expect("a row").2
    };
    assert!(matches!(of(0, "ram", 0), Verdict::Chosen { pages: 512 }), "{told}");
    assert_eq!(of(1, "ram", 0), Verdict::Forbidden(Forbidden::Volatile));
    assert_eq!(of(1, "pfs", 1), Verdict::Forbidden(Forbidden::Plain));
    assert!(matches!(of(1, "nvme", 0), Verdict::NoRoom { pages: 280..=300 }), "{told}");
    assert!(matches!(of(1, "nvme", 1), Verdict::NoRoom { .. } | Verdict::Chosen { .. }), "{told}");
    assert!(matches!(of(1, "nvme", 2), Verdict::Chosen { .. }), "{told}");
}

#[test]
fn explanations_print_and_round_trip_through_json() {
    let ask = Ask {
        requirements: vec!["min_read_latency".parse().expect("one"), "min_storage".parse().expect("one")],
        ..Ask::default()
    };
    let (policy, resolutions) = resolve(&ask, &Ask::default(), &Ask::default(), Replicas::default());
    let snapshot = storage::storage(&TIER_LEVELS);
    let want = Want::bytes(BYTES_PER_MIB);
    let mut memo = Memo::default();
    let plan = plan(&want, &snapshot, &policy, &codecs(), &mut memo).expect("room");
    let told = explain(&want, &snapshot, &policy, &codecs(), &resolutions, Some(plan));
    let text = told.to_string();
    for part in ["go together", "3 of 3 replicas", "replica 0 is to be raw", "chosen for 256 pages", "times the cost"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let json = serde_json::to_string(&told).expect("JSON");
    let again: Explanation = serde_json::from_str(&json).expect("an explanation");
    assert_eq!(again.to_string(), text);
    assert!(json.contains(r#""encoding":"none""#) && !json.contains("codec"), "encodings are named: {json}");
}

#[test]
fn missing_replicas_are_reported() {
    let targets = tiers(&TIER_LEVELS).1;
    let two_domains: Vec<Target> =
        targets.iter().enumerate().map(|(i, target)| Target { domain: i as u32 % 2, ..target.clone() }).collect();
    let text = explained(&Want::bytes(BYTES_PER_MIB), two_domains, &Policy::default()).to_string();
    assert!(text.contains("2 of 3 replicas (2 failure domains are up)"), "{text}");
    let tight = Policy { budget: Some(Budget(0.1)), ..Policy::default() };
    let told = explained(&Want::bytes(BYTES_PER_MIB), targets.clone(), &tight);
    assert_eq!(told.gave_way, [GaveWay::Budget], "each replica is one piece, whatever came before the budget");
    assert!(told.to_string().contains("need more than the budget"), "{told}");
    let full: Vec<Target> = targets.into_iter().map(|target| Target { free: 0, ..target }).collect();
    let told = explained(&Want::bytes(BYTES_PER_MIB), full, &Policy::default());
    assert!(told.to_string().contains("has no place"), "{told}");
    assert!(told.replicas[0].weighed.iter().all(|row| !matches!(row.verdict, Verdict::Chosen { .. })));
}

#[test]
fn a_dearer_alternative_is_not_reported_as_taken() {
    let told =
        explained(&Want::bytes(BYTES_PER_MIB), tiers(&TIER_LEVELS).1, &Policy { replicas: 2, ..Policy::default() });
    for (replica, of) in told.replicas.iter().enumerate() {
        let chosen = of.weighed.iter().find(|row| matches!(row.verdict, Verdict::Chosen { .. })).expect("a place").cost;
        for row in &of.weighed {
            assert!(!matches!(row.verdict, Verdict::Taken { .. }) || row.cost < chosen, "replica {replica}: {told}");
        }
    }
    let dearer = |row: &terrace_plan::explain::Weighed| matches!(row.verdict, Verdict::Dearer { .. });
    assert!(told.replicas[1].weighed.iter().any(|row| row.tier == "pfs" && dearer(row)), "{told}");
}

#[test]
fn a_free_replica_has_no_cost_factors() {
    let (levels, targets) = tiers(&TIER_LEVELS);
    let idle = levels.into_iter().map(|tier| Tier { watts: if tier.name == "pfs" { 3.0 } else { 0.0 }, ..tier });
    let snapshot = Snapshot::new(idle.collect(), targets, 5.0).expect("a snapshot");
    let (want, policy) = (Want::bytes(BYTES_PER_MIB), Policy { replicas: 1, energy: true, ..Policy::default() });
    let mut memo = Memo::default();
    let plan = plan(&want, &snapshot, &policy, &codecs(), &mut memo).ok();
    let told = explain(&want, &snapshot, &policy, &codecs(), &[], plan);
    let pfs = told.replicas[0].weighed.iter().find(|row| row.tier == "pfs" && row.cost > 0.0).expect("a row");
    assert_eq!(pfs.verdict, Verdict::Dearer { times: None }, "{told}");
    assert!(told.to_string().contains("what is chosen costs nothing"), "{told}");
}

#[test]
fn requests_shorter_than_a_page_store_less_than_a_page() {
    let told = explained(&Want::bytes(1), tiers(&TIER_LEVELS).1, &Policy { replicas: 2, ..Policy::default() });
    assert_eq!((told.stored, told.replicas[1].pieces[0].stored), (2, 1), "{told}");
    assert!(told.to_string().contains("chosen for 1 page\n"), "{told}");
    let told = explained(&Want::bytes(5000), tiers(&TIER_LEVELS).1, &Policy { replicas: 1, ..Policy::default() });
    assert!(told.stored <= 5000, "{told}");
    let nothing = explained(&Want::bytes(0), tiers(&TIER_LEVELS).1, &Policy::default());
    assert_eq!((nothing.stored, nothing.replicas.len()), (0, 0), "{nothing}");
}

proptest! {
    #[test]
    fn no_allowed_alternative_with_room_is_cheaper_than_the_choice(
        free in prop::collection::vec(0u64..3 * BYTES_PER_MIB, 5),
        speed in prop::collection::vec(1e7f64..5e9, 5),
        bytes in 1u64..BYTES_PER_MIB,
        paper in any::<bool>(),
    ) {
        let mut targets = tiers(&TIER_LEVELS).1;
        for (target, (free, speed)) in targets.iter_mut().zip(free.into_iter().zip(speed)) {
            (target.free, target.read, target.write) = (free, speed, speed);
        }
        let model = if paper { terrace_cost::Model::Paper } else { terrace_cost::Model::Measured };
        let policy = Policy { replicas: 1, model, ..Policy::default() };
        let told = explained(&Want::bytes(bytes), targets, &policy);
        let [replica] = &told.replicas[..] else { panic!("one replica") };
        if replica.pieces.len() == 1 {
            let cost = told.cost.first;
            for row in &replica.weighed {
                match row.verdict {
                    Verdict::Chosen { .. } => prop_assert!((row.cost - cost).abs() <= cost * 1e-9),
                    // A long request may be dearer by a thousandth.
                    Verdict::Dearer { .. } => prop_assert!(row.cost >= cost * 0.999),
                    Verdict::Yields => prop_assert!(row.cost >= cost * 0.999, "{told}"),
                    Verdict::Taken { .. } => prop_assert!(false, "by whom?"),
                    Verdict::NoRoom { .. } | Verdict::Forbidden(_) => {}
                }
            }
        }
    }
}
