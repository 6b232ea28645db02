//! The choice between the targets of a tier.

mod storage;

use storage::{BYTES_PER_MIB, expected, storage, targets, tiers};
use terrace_codec::ALL_ENCODINGS;
use terrace_cost::Costs;
use terrace_plan::plan::{Memo, Want, plan};
use terrace_plan::policy::{Ask, Policy, Replicas};
use terrace_plan::snapshot::{Snapshot, Target, TierSet};

fn codecs() -> Costs {
    Costs::new([(ALL_ENCODINGS[1], expected(700e6, 2e9, 1.5))])
}

#[test]
fn interchangeable_targets_fill_evenly() {
    let mut snapshot = storage(&[("disks", true, 5, 1e8, 1e-3, 1000)]);
    let mut memo = Memo::default();
    for _ in 0..1000 {
        let plan =
            plan(&Want::bytes(BYTES_PER_MIB), &snapshot, &Policy::default(), &codecs(), &mut memo).expect("room");
        for piece in plan.replicas.iter().flatten() {
            let target = usize::from(piece.target);
            snapshot.set_space(target, snapshot.targets()[target].free - piece.stored, 0);
        }
    }
    let free: Vec<u64> = snapshot.targets().iter().map(|target| target.free).collect();
    let (least, most) = (free.iter().min().expect("one"), free.iter().max().expect("one"));
    assert!(most - least <= 2 * BYTES_PER_MIB, "{free:?}");
    assert_eq!(memo.misses, 1, "the choice needs no new plan");
}

#[test]
fn the_least_busy_come_first_then_those_with_space() {
    let (tiers, mut all) = tiers(&[("disks", true, 4, 1e8, 1e-3, 1000)]);
    for (target, (load, free)) in all.iter_mut().zip([(0.5, 900), (0.0, 700), (0.0, 800), (2.0, 1000)]) {
        *target = Target { load, free: free * BYTES_PER_MIB, ..target.clone() };
    }
    let mut snapshot = Snapshot::new(tiers, all, 5.0).expect("a snapshot");
    let mut memo = Memo::default();
    let mut planned = |snapshot: &Snapshot| {
        targets(plan(&Want::bytes(BYTES_PER_MIB), snapshot, &Policy::default(), &codecs(), &mut memo).expect("room"))
    };
    assert_eq!(planned(&snapshot), [[2], [1], [0]]);
    snapshot.set_load(2, 0.25);
    snapshot.set_load(3, 0.0);
    assert_eq!(planned(&snapshot), [[3], [1], [2]]);
    assert_eq!(memo.misses, 1, "the choice needs no new plan");
}

#[test]
fn under_max_load_balance_a_busy_fast_target_is_dearer_than_an_idle_slow_one() {
    let (tiers, mut all) = tiers(&[("nvme", true, 1, 3e8, 1e-4, 1000), ("disk", true, 1, 2e8, 1e-4, 1000)]);
    all[0].load = 3.0;
    let snapshot = Snapshot::new(tiers, all, 5.0).expect("a snapshot");
    let one = Ask { replicas: Some(1), ..Ask::default() };
    for (requirements, first) in [(&[][..], 0), (&["max_load_balance"], 1)] {
        let policy = storage::policy(requirements, one.clone(), Replicas::default());
        let mut memo = Memo::default();
        let plan = plan(&Want::bytes(BYTES_PER_MIB), &snapshot, &policy, &codecs(), &mut memo).expect("room");
        assert_eq!(targets(plan), [[first]]);
    }
}

#[test]
fn only_allowed_targets_are_taken_and_no_domain_twice() {
    let levels =
        [("ram", false, 1, 2e9, 1e-6, 64), ("nvme", true, 2, 1e9, 1e-4, 64), ("pfs", true, 2, 1e8, 5e-3, 4096)];
    let (tiers, mut all) = tiers(&levels);
    all[2].domain = all[1].domain;
    let snapshot = Snapshot::new(tiers, all, 5.0).expect("a snapshot");
    let place = |policy: Policy| {
        let plan = plan(&Want::bytes(BYTES_PER_MIB), &snapshot, &policy, &codecs(), &mut Memo::default())
            .expect("room")
            .clone();
        targets(&plan).concat()
    };
    let five = Policy { replicas: 5, ..Policy::default() };
    assert_eq!(place(five), [0, 1, 3, 4], "4 of 5: two targets share a domain");
    let slow_only = Policy { tiers: TierSet::of([2]), ..Policy::default() };
    assert_eq!(place(slow_only), [3, 4], "2 of 3: the tier has two domains");
    assert_eq!(place(Policy { max_latency: Some(1e-4), volatile: true, replicas: 1, ..Policy::default() }), [0]);
    let last_lasts = Policy { replicas: 1, ..Policy::default() };
    assert_eq!(place(last_lasts), [1], "the only replica outlives a reboot");
    let distinct = Policy { distinct_tiers: true, ..Policy::default() };
    assert_eq!(place(distinct), [0, 1, 3]);
}
