//! Compares searches among some targets of each class with searches among all targets.

mod common;
mod storage;

use std::collections::{HashMap, HashSet};

use common::{Problem, make_pieces};
use proptest::prelude::*;
use storage::{BYTES_PER_MIB, expected};
use terrace_codec::{ALL_ENCODINGS, Encoding};
use terrace_cost::{Costs, Expected};
use terrace_plan::plan::{Memo, Piece, Want, plan, replan};
use terrace_plan::policy::{Ack, Budget, Policy};
use terrace_plan::snapshot::{PAGE_BYTES, Snapshot, Target, TargetSet, Tier, TierSet};

/// Targets on some nodes. Few speeds occur, so that many targets are alike.
#[derive(Clone, Debug)]
struct Case {
    pages: u64,
    targets: Vec<Target>,
    expected: Vec<(Encoding, Expected)>,
    policy: Policy,
    usable: Option<Vec<usize>>,
    /// The start, pages, target and encoding of pieces that are stored already.
    present: Vec<(u32, u32, usize, usize)>,
}

impl Case {
    fn snapshot(&self) -> Snapshot {
        let tier = |(name, persistent): (&str, bool)| Tier { name: name.into(), persistent, watts: 3.0 };
        let tiers = [("ram", false), ("nvme", true), ("disk", true)].map(tier);
        Snapshot::new(tiers.into(), self.targets.clone(), 2.0).expect("a snapshot")
    }

    fn want(&self) -> Want {
        let usable = self.usable.clone();
        Want { targets: usable.map_or(TargetSet::ALL, TargetSet::of), ..Want::bytes(self.pages * PAGE_BYTES) }
    }

    fn present(&self, costs: &Costs) -> Vec<Piece> {
        make_pieces(&self.present, self.targets.len(), costs)
    }

    /// Returns how many targets a search needs to miss nothing: of each class all that are short of space, and one for
    /// each place that a scheme may have.
    fn needed(&self) -> usize {
        let mut classes: HashMap<_, (usize, usize)> = HashMap::new();
        let is_tight = |target: &Target| target.free < self.pages * PAGE_BYTES;
        for target in self.targets.iter().filter(|target| target.up) {
            let load = if self.policy.spread { target.load } else { 0.0 };
            let bits = [target.read, target.write, target.latency, load].map(f64::to_bits);
            let (all, tight) = classes.entry((target.tier, target.lanes, target.plain, bits)).or_default();
            *all += 1;
            *tight += usize::from(is_tight(target));
        }
        let pieces = self.policy.budget.is_some() || !self.present.is_empty() || self.targets.iter().any(is_tight);
        let places = usize::from(self.policy.replicas) * if pieces { 3 } else { 1 };
        classes.values().map(|(all, tight)| (places + tight + self.present.len()).min(*all)).sum()
    }
}

/// Targets on `nodes` nodes: mostly those of two tiers, the faster one short of space where `is_tight`.
fn target(nodes: u32, pages: u64, is_tight: bool) -> impl Strategy<Value = Target> {
    let kind = prop_oneof![
        1 => Just((0u8, 5e9, 0.0, 4u16)),
        8 => Just((1, 1e9, 1e-5, 4)),
        1 => Just((1, 2e8, 1e-4, 4)),
        16 => Just((2, 1e8, 5e-3, 2))
    ];
    let short = if is_tight { 4 } else { 0 };
    let free = prop_oneof![1 => Just(u64::MAX / 4096), short => 0..pages * PAGE_BYTES];
    let state = [0.1, 0.02, 0.2, 0.95].map(prop::bool::weighted);
    (kind, 0..nodes, free, state).prop_map(
        move |((tier, speed, latency, lanes), domain, free, [busy, plain, near, up])| Target {
            tier,
            domain,
            read: speed,
            write: speed,
            latency,
            free: if tier == 2 { u64::MAX / 4096 } else { free },
            reserved: 0,
            load: if busy { 0.5 } else { 0.0 },
            lanes,
            plain,
            near,
            up,
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let ack = prop_oneof![Just(Ack::Placed), Just(Ack::Replicated), Just(Ack::Durable)];
    let budget = prop::option::weighted(0.2, (0.5f64..3.0).prop_map(Budget));
    let max_latency = prop::option::weighted(0.2, Just(5e-5));
    let seldom = || prop::bool::weighted(0.2);
    (1u8..=3, ack, budget, max_latency, (seldom(), seldom(), seldom(), seldom())).prop_map(
        |(replicas, ack, budget, max_latency, (raw_first, spread, distinct_tiers, volatile))| Policy {
            replicas,
            ack,
            budget,
            max_latency,
            raw_first,
            spread,
            distinct_tiers,
            volatile,
            ..Policy::default()
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let expected = (1e8..1e10, 1e8..1e10, 1.0..6.0)
        .prop_map(|(compress, decompress, ratio)| Expected::from_speeds(compress, decompress, ratio));
    (1u64..=4, 2u32..9, any::<bool>()).prop_flat_map(move |(pages, nodes, is_tight)| {
        let targets = prop::collection::vec(target(nodes, pages, is_tight), 6..40);
        let expected = prop::collection::vec(expected.clone(), 0..=2);
        let usable = prop::option::weighted(0.2, prop::collection::vec(0usize..40, 8..30));
        let held = (0..4u32, 1..5u32, 0usize..40, 0usize..3);
        let present = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(held, 1..3)];
        (targets, expected, policy(), usable, present).prop_map(
            move |(mut targets, expected, policy, usable, present)| {
                targets.sort_by_key(|target| target.tier);
                let expected = ALL_ENCODINGS[1..].iter().copied().zip(expected).collect();
                Case { pages, targets, expected, policy, usable, present }
            },
        )
    })
}

/// Runs `cases` cases; `PROPTEST_CASES` raises the number.
fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, failure_persistence: None, max_global_rejects: 1 << 20, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn some_targets_of_each_class_give_plans_as_cheap_as_all(case in case(), less in 1usize..36) {
        let (snapshot, costs, want) = (case.snapshot(), Costs::new(case.expected.clone()), case.want());
        let (present, policy) = (&case.present(&costs), &case.policy);
        let most = case.targets.len().saturating_sub(less).max(1);
        let mut memo = Memo::new(4).with_steps(30_000).with_targets(most);
        let few = replan(&want, present, &snapshot, policy, &costs, &mut memo).ok();
        if let Some(plan) = few {
            let space = (0..case.targets.len()).map(|target| snapshot.space(target, case.pages * PAGE_BYTES)).collect();
            Problem { want: want.clone(), snapshot: &snapshot, policy, costs: &costs, present, space }.check(plan);
        }
        let mut memo = Memo::new(4).with_steps(30_000);
        let all = replan(&want, present, &snapshot, policy, &costs, &mut memo).ok();
        // With fewer targets than needed, a plan is valid, and may not be the cheapest.
        if case.needed() <= most && few.is_none_or(|plan| plan.proven) && all.is_none_or(|plan| plan.proven) {
            let cost = |plan: &terrace_plan::plan::Plan| (plan.replicas.len(), plan.cost);
            prop_assert_eq!(few.map(cost), all.map(cost), "{:#?} instead of {:#?}", few, all);
        }
    }
}

/// 100 nodes, each with memory and a disk.
fn cluster() -> Snapshot {
    let of = |tier: u8, domain: u32| Target {
        tier,
        domain,
        read: [5e9, 1e9][usize::from(tier)],
        write: [5e9, 1e9][usize::from(tier)],
        latency: 1e-4,
        free: 1000 * BYTES_PER_MIB,
        reserved: 0,
        load: 0.0,
        lanes: 4,
        plain: false,
        near: false,
        up: true,
    };
    let targets = (0..2).flat_map(|tier| (0..100).map(move |node| of(tier, node))).collect();
    let tier = |name: &str, persistent| Tier { name: name.into(), persistent, watts: 10.0 };
    Snapshot::new(vec![tier("ram", false), tier("disk", true)], targets, 5.0).expect("a snapshot")
}

#[test]
fn replicas_lie_on_different_nodes_and_fill_all_evenly() {
    let (mut snapshot, mut memo) = (cluster(), Memo::default());
    let costs = Costs::new([(ALL_ENCODINGS[1], expected(700e6, 2e9, 1.5))]);
    for hash in 0..2000u64 {
        let want = Want { hash: Some(hash), ..Want::bytes(BYTES_PER_MIB) };
        let plan = plan(&want, &snapshot, &Policy::default(), &costs, &mut memo).expect("room");
        let targets: Vec<usize> = plan.replicas.iter().flatten().map(|piece| piece.target.into()).collect();
        let nodes: HashSet<u32> = targets.iter().map(|target| snapshot.targets()[*target].domain).collect();
        assert_eq!((targets.len(), nodes.len()), (3, 3), "{targets:?}");
        for target in targets {
            snapshot.set_space(target, snapshot.targets()[target].free - BYTES_PER_MIB, 0);
        }
    }
    assert_eq!(memo.misses, 1, "the choice needs no new plan");
    for tier in [0..100, 100..200] {
        let free: Vec<u64> = snapshot.targets()[tier].iter().map(|target| target.free / BYTES_PER_MIB).collect();
        let (least, most) = (free.iter().min().expect("one"), free.iter().max().expect("one"));
        assert!(most - least <= 12, "{free:?}");
    }
}

#[test]
fn processes_that_know_the_same_choose_different_targets() {
    let (snapshot, costs, mut memo) = (cluster(), Costs::new([]), Memo::default());
    let mut first = |hash| {
        let want = Want { hash: Some(hash), ..Want::bytes(BYTES_PER_MIB) };
        plan(&want, &snapshot, &Policy::default(), &costs, &mut memo).expect("room").replicas[0][0].target
    };
    let chosen: HashSet<u16> = (0..100).map(&mut first).collect();
    assert!(chosen.len() > 30, "{chosen:?}");
    assert_eq!(first(7), first(7), "the choice for an extent is stable");
}

#[test]
fn the_first_replica_is_on_the_own_node_and_the_others_on_all_others_in_turn() {
    let (snapshot, costs, mut memo) = (cluster(), Costs::new([]), Memo::default());
    let mut targets = snapshot.targets().to_vec();
    for own in targets.iter_mut().filter(|target| target.domain == 7) {
        (own.near, own.free) = (true, own.free / 2);
    }
    let mut snapshot = Snapshot::new(snapshot.tiers().to_vec(), targets, 5.0).expect("a snapshot");
    let policy = Policy { replicas: 2, tiers: TierSet::of([1]), ..Policy::default() };
    let mut first_two = |snapshot: &Snapshot, hash| {
        let want = Want { hash: Some(hash), ..Want::bytes(BYTES_PER_MIB) };
        let plan = plan(&want, snapshot, &policy, &costs, &mut memo).expect("room");
        [0, 1].map(|at: usize| snapshot.targets()[usize::from(plan.replicas[at][0].target)].domain)
    };
    let plans: Vec<[u32; 2]> = (0..300).map(|hash| first_two(&snapshot, hash)).collect();
    assert!(plans.iter().all(|[first, second]| *first == 7 && *second != 7), "{plans:?}");
    let others: HashSet<u32> = plans.iter().map(|[_, second]| *second).collect();
    assert!(others.len() > 60, "{others:?}");
    snapshot.set_space(107, 0, 0);
    assert!((0..100).all(|hash| !first_two(&snapshot, hash).contains(&7)), "a full one takes nothing");
}

#[test]
fn the_last_of_thousands_of_targets_is_used_if_no_other_may_be() {
    let of = |domain: u32| Target { domain, free: 64 * BYTES_PER_MIB, ..cluster().targets()[150].clone() };
    let tier = |name: &str, persistent| Tier { name: name.into(), persistent, watts: 10.0 };
    let mut targets = vec![of(0); 5000];
    targets.iter_mut().zip(0..).for_each(|(target, domain)| target.domain = domain);
    let snapshot = Snapshot::new(vec![tier("ram", false), tier("disk", true)], targets, 5.0).expect("a snapshot");
    let want = Want { targets: TargetSet::of([4999]), ..Want::bytes(BYTES_PER_MIB) };
    let mut memo = Memo::default();
    let plan = plan(&want, &snapshot, &Policy::default(), &Costs::new([]), &mut memo).expect("room");
    assert_eq!(storage::targets(plan), [[4999]]);
    assert_eq!(snapshot.domains_up(&TargetSet::ALL), u8::MAX, "as many replicas as a policy can ask for");
}

/// Two targets of the first tier have room for half of the request each, on nodes of their own, so that a replica is cut.
/// The other replica is whole only if it is on a third node.
#[test]
fn a_cut_replica_leaves_a_node_for_a_whole_one() {
    let of = |tier: u8, domain: u32| Target { tier, domain, ..cluster().targets()[0].clone() };
    let fast = |domain| Target { free: 5 * PAGE_BYTES / 2, ..of(0, domain) };
    let slow = |domain| Target { read: 1e8, write: 1e8, latency: 5e-3, ..of(1, domain) };
    let targets: Vec<Target> = [fast(0), fast(1)].into_iter().chain((0..6).map(slow)).collect();
    let tier = |name: &str| Tier { name: name.into(), persistent: true, watts: 10.0 };
    let snapshot = Snapshot::new(vec![tier("fast"), tier("slow")], targets, 5.0).expect("a snapshot");
    let policy = Policy { replicas: 2, ack: Ack::Replicated, ..Policy::default() };
    for most in [8, 6] {
        let mut memo = Memo::default().with_targets(most);
        let plan = plan(&Want::bytes(4 * PAGE_BYTES), &snapshot, &policy, &Costs::new([]), &mut memo).expect("room");
        assert_eq!(plan.replicas.iter().map(|pieces| pieces.len()).collect::<Vec<_>>(), [2, 1], "{most}: {plan:?}");
    }
}

#[test]
fn what_is_stored_on_any_of_many_targets_stays_there() {
    let (snapshot, costs) = (cluster(), Costs::new([]));
    let piece = |target| Piece { start: 0, pages: 16, target, encoding: Encoding::NONE, stored: 16 * PAGE_BYTES };
    let present = [piece(177), piece(133), piece(199)];
    let want = Want::bytes(16 * PAGE_BYTES);
    let (mut memo, policy) = (Memo::default(), Policy { persistent: true, ..Policy::default() });
    let plan = replan(&want, &present, &snapshot, &policy, &costs, &mut memo).expect("room");
    assert_eq!((plan.moves, storage::targets(plan).concat()), (0, vec![177, 133, 199]));
}
