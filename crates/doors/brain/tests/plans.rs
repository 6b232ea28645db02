//! Plans through the C functions equal those of the planner, and what was saved is checked.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

use proptest::prelude::*;
use terrace_brain::*;
use terrace_cost::{ASSUMED_CORE_WATTS, Costs, MeasuredSpeed};
use terrace_plan::plan::{Memo, Plan, Want, plan_within_budget};
use terrace_plan::policy::{Ask, Asked, Policy, Replicas, resolve};
use terrace_plan::snapshot::{PAGE_BYTES, Snapshot, Target, TargetSet, Tier, TierSet};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const TIER_NAMES: [&str; 4] = ["a", "b", "c", "d"];
const REQUIREMENT_NAMES: [&str; 10] = [
    "min_read_latency",
    "max_read_bandwidth",
    "max_read_availability",
    "max_write_availability",
    "max_durability",
    "max_load_balance",
    "min_energy",
    "min_write_latency",
    "max_write_bandwidth",
    "min_storage",
];

#[derive(Clone, Debug)]
struct TierCase {
    persistent: bool,
    reading: MeasuredSpeed,
    writing: MeasuredSpeed,
    watts: f64,
    targets: Vec<TargetCase>,
}

#[derive(Clone, Debug)]
struct TargetCase {
    domain: Option<u8>,
    free: u64,
    total: u64,
    lanes: u16,
    load: f64,
    up: bool,
}

#[derive(Clone, Debug)]
struct RequestCase {
    bytes: usize,
    offset: u64,
    requirements: Vec<usize>,
    weights: Option<&'static str>,
    ack: Option<&'static str>,
    budget: Option<&'static str>,
    tiers: Option<Vec<usize>>,
    max_latency: f64,
    reads: f64,
    replicas: [u8; 3],
    volatile: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Plan(RequestCase),
    Update { target: usize, free: u64, load: f64, up: bool },
    Report { target: usize, stored: usize, seconds: f64, is_write: bool },
}

fn spaces() -> impl Strategy<Value = u64> {
    prop_oneof![0..20 * PAGE_BYTES, 1u64 << 30..1 << 31]
}

fn tiers() -> impl Strategy<Value = Vec<TierCase>> {
    let target = (prop::option::of(0..3u8), spaces(), spaces(), 0..4u16).prop_map(|(domain, free, used, lanes)| {
        TargetCase { domain, free, total: free + used, lanes, load: 0.0, up: true }
    });
    let speed = 6.0..10.5f64;
    let tier = (any::<bool>(), speed.clone(), speed, 0..3, 0..20u8, prop::collection::vec(target, 1..4));
    let tier = tier.prop_map(|(persistent, read, write, latency, watts, targets)| {
        let latency = [0.0, 1e-4, 5e-3][latency as usize];
        let [reading, writing] = [read, write].map(|speed| MeasuredSpeed { rate: 10f64.powf(speed), latency });
        TierCase { persistent, reading, writing, watts: watts.into(), targets }
    });
    prop::collection::vec(tier, 1..=TIER_NAMES.len())
}

fn requests() -> impl Strategy<Value = RequestCase> {
    let words = (
        prop::collection::vec(0..REQUIREMENT_NAMES.len(), 0..3),
        prop::sample::select(vec![None, None, Some("archival"), Some("asynchronous"), Some("0.3,0.3,0.4")]),
        prop::sample::select(vec![None, Some("placed"), Some("replicated"), Some("durable")]),
        prop::sample::select(vec![None, None, Some("1.5x"), Some("3x"), Some("0.01x")]),
        prop::option::weighted(0.2, prop::collection::vec(0..2usize, 1..3)),
    );
    let numbers =
        (1..100_000usize, 0..5u64, 0..3u8, prop::sample::select(vec![0.0, 0.3, 7.0]), any::<[bool; 3]>(), 0..4u8);
    (words, numbers).prop_map(
        |((requirements, weights, ack, budget, tiers), (bytes, block, slow, reads, flags, least))| {
            let most = if flags[0] { least.max(2) } else { 0 };
            let replicas = if flags[1] { most.max(least) } else { 0 };
            RequestCase {
                bytes,
                offset: block * (256 << 10),
                requirements,
                weights,
                ack,
                budget,
                tiers,
                max_latency: [0.0, 0.0, 1e-3][usize::from(slow)],
                reads,
                replicas: [replicas, least, most],
                volatile: flags[2],
            }
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let update = (0..12usize, spaces(), 0..3u8, any::<bool>()).prop_map(|(target, free, load, up)| Step::Update {
        target,
        free,
        load: load.into(),
        up,
    });
    let report =
        (0..12usize, 1..300_000usize, -5.0..0.0f64, any::<bool>()).prop_map(|(target, stored, log, is_write)| {
            Step::Report { target, stored, seconds: 10f64.powf(log), is_write }
        });
    prop::collection::vec(prop_oneof![4 => requests().prop_map(Step::Plan), 1 => update, 1 => report], 1..8)
}

fn text(of: &str) -> CString {
    CString::new(of).unwrap()
}

fn pointer(of: &Option<CString>) -> *const c_char {
    of.as_ref().map_or(null(), |text| text.as_ptr())
}

/// Makes a brain by the C function.
fn create(tiers: &[TierCase]) -> *mut Brain {
    let names = TIER_NAMES.map(text);
    let domains = ["x", "y", "z"].map(text);
    let described = tiers.iter().zip(&names).flat_map(|(tier, name)| {
        let domains = &domains;
        tier.targets.iter().map(move |target| BrainTarget {
            tier: name.as_ptr(),
            domain: target.domain.map_or(null(), |domain| domains[usize::from(domain)].as_ptr()),
            read: tier.reading.rate,
            write: tier.writing.rate,
            latency: tier.writing.latency,
            free: target.free,
            total: target.total,
            watts: tier.watts,
            lanes: target.lanes,
            persistent: tier.persistent.into(),
        })
    });
    let described: Vec<BrainTarget> = described.collect();
    let mut brain = null_mut();
    let made = terrace_brain_create(TERRACE_BRAIN_VERSION, described.as_ptr(), described.len(), &mut brain);
    assert_eq!(made, BrainStatus::Ok);
    brain
}

/// Plans by the C function; none if no target has room.
fn plan(brain: *const Brain, case: &RequestCase, bytes: &[u8]) -> Option<(Vec<BrainPiece>, BrainPlanSize)> {
    let names: Vec<&str> = case.requirements.iter().map(|at| REQUIREMENT_NAMES[*at]).collect();
    let tiers =
        case.tiers.as_ref().map(|all| text(&all.iter().map(|at| TIER_NAMES[*at]).collect::<Vec<_>>().join("+")));
    let [weights, ack, budget] = [case.weights, case.ack, case.budget].map(|word| word.map(text));
    let (key, requirements) = (text(FILE_KEY), text(&names.join(",")));
    let request = BrainRequest {
        key: key.as_ptr(),
        offset: case.offset,
        element: null(),
        requirements: requirements.as_ptr(),
        weights: pointer(&weights),
        ack: pointer(&ack),
        budget: pointer(&budget),
        tiers: pointer(&tiers),
        max_latency: case.max_latency,
        reads: case.reads,
        replicas: case.replicas[0],
        min_replicas: case.replicas[1],
        max_replicas: case.replicas[2],
        allow_volatile: case.volatile.into(),
    };
    let (mut size, mut json) = (BrainPlanSize::default(), null_mut());
    let mut pieces: Vec<BrainPiece> = Vec::with_capacity(MAX_PIECES);
    let (at, room) = (bytes.as_ptr().cast::<c_void>(), pieces.as_mut_ptr());
    match terrace_brain_plan(brain, &request, at, bytes.len(), room, MAX_PIECES, &mut size, &mut json) {
        BrainStatus::Ok => {}
        BrainStatus::NoSpace => {
            assert!(!json.is_null(), "the reasons are told");
            terrace_brain_free(json);
            return None;
        }
        status => panic!("{status:?}: {}", last_error()),
    }
    terrace_brain_free(json);
    #[allow(unsafe_code, reason = "the call has filled that many")]
    unsafe {
        pieces.set_len(size.pieces);
    }
    Some((pieces, size))
}

fn last_error() -> String {
    #[allow(unsafe_code, reason = "the message is valid until the next failure")]
    let text = unsafe { std::ffi::CStr::from_ptr(terrace_brain_last_error()) };
    text.to_string_lossy().into_owned()
}

const FILE_KEY: &str = "run/step_7.dat";
const MAX_PIECES: usize = 256;

/// The planner's answer for the same tiers and costs, with nothing remembered.
fn plan_afresh(tiers: &[TierCase], case: &RequestCase, bytes: u64, costs: &Costs) -> (Policy, Option<Plan>) {
    let levels = tiers.iter().zip(TIER_NAMES);
    let levels = levels.map(|(tier, name)| Tier { name: name.into(), persistent: tier.persistent, watts: tier.watts });
    let mut targets = Vec::new();
    let mut order = (f64::INFINITY, f64::INFINITY, 0.0f64);
    for (number, tier) in (0u8..).zip(tiers) {
        let TierCase { reading, writing, .. } = tier;
        order = (order.0.min(reading.rate), order.1.min(writing.rate), order.2.max(writing.latency));
        for target in &tier.targets {
            let named = target.domain.map(|domain| 1000 + u32::from(domain));
            targets.push(Target {
                tier: number,
                domain: named.unwrap_or(targets.len() as u32),
                read: order.0,
                write: order.1,
                latency: order.2,
                free: target.free,
                reserved: 0,
                load: target.load,
                lanes: target.lanes.max(1),
                plain: false,
                near: false,
                up: target.up,
            });
        }
    }
    let filled = tiers.iter().map(|tier| {
        let [used, all] = [|of: &TargetCase| of.total - of.free, |of: &TargetCase| of.total]
            .map(|sum: fn(&TargetCase) -> u64| tier.targets.iter().map(sum).sum::<u64>() as f64);
        used / all.max(1.0)
    });
    let snapshot = Snapshot::new(levels.collect(), targets, ASSUMED_CORE_WATTS).unwrap().filled(filled);
    let requirements = case.requirements.iter().map(|at| REQUIREMENT_NAMES[*at].parse::<Asked>().unwrap());
    let [replicas, least, most] = case.replicas;
    let ask = Ask {
        requirements: requirements.collect(),
        replicas: (replicas > 0).then_some(replicas),
        ack: case.ack.map(|word| word.parse().unwrap()),
        weights: case.weights.map(|word| word.parse().unwrap()),
        budget: case.budget.map(|word| word.parse().unwrap()),
        max_latency: (case.max_latency > 0.0).then_some(case.max_latency),
        tiers: case.tiers.as_ref().map(|all| TierSet::of(all.iter().copied())),
        volatile: Some(case.volatile),
    };
    let least = least.max(1);
    let range = Replicas { min: least, max: if most == 0 { 5.max(replicas) } else { most }, default: least };
    let (policy, _) = resolve(&ask, &Ask::default(), &Ask::default(), range);
    let hash = xxh3_64_with_seed(&case.offset.to_le_bytes(), xxh3_64(FILE_KEY.as_bytes()));
    let reads = if case.reads == 0.0 { 1.0 } else { case.reads };
    let want = Want { bytes, reads, targets: TargetSet::ALL, hash: Some(hash) };
    let mut memo = Memo::default();
    (policy, plan_within_budget(&want, &snapshot, &policy, costs, &mut memo).ok().cloned())
}

/// The target with this number, counted over all tiers.
fn nth(tiers: &mut [TierCase], number: usize) -> Option<(&mut MeasuredSpeed, &mut MeasuredSpeed, &mut TargetCase)> {
    let mut number = number;
    for TierCase { reading, writing, targets, .. } in tiers {
        if number < targets.len() {
            return Some((reading, writing, &mut targets[number]));
        }
        number -= targets.len();
    }
    None
}

/// Bytes that hardly shrink for kind 0, and more the higher it is.
fn bytes(length: usize, kind: u32) -> Vec<u8> {
    let word = |number: u32| number.checked_div(kind).unwrap_or(number.wrapping_mul(2_654_435_761));
    (0..length as u32 / 4 + 1).map(word).flat_map(u32::to_le_bytes).take(length).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn plans_equal_those_of_the_planner(tiers in tiers(), steps in steps(), kind in 0..4u32) {
        let mut tiers = tiers;
        let brain = create(&tiers);
        for step in steps {
            match step {
                Step::Update { target, free, load, up } => {
                    let status = terrace_brain_update(brain, target, free, load, up.into());
                    let known = nth(&mut tiers, target).map(|(_, _, target)| {
                        (target.free, target.total, target.load, target.up) = (free, target.total.max(free), load, up);
                    });
                    prop_assert_eq!(status == BrainStatus::Ok, known.is_some(), "{}", last_error());
                }
                Step::Report { target, stored, seconds, is_write } => {
                    let outcome = BrainOutcome {
                        key: null(),
                        element: null(),
                        target: target as u32,
                        encoding: 0,
                        length: stored as u64,
                        stored: stored as u64,
                        codec_seconds: 0.0,
                        target_seconds: seconds,
                        was_read: (!is_write).into(),
                    };
                    let status = terrace_brain_report(brain, &outcome);
                    let known = nth(&mut tiers, target).map(|(reading, writing, target)| {
                        let speed = if is_write { writing } else { reading };
                        *speed = speed.learn(stored, seconds);
                        if is_write {
                            target.free = target.free.saturating_sub(stored as u64);
                        }
                    });
                    prop_assert_eq!(status == BrainStatus::Ok, known.is_some(), "{}", last_error());
                }
                Step::Plan(mut case) => {
                    // The names of tiers that are not there are refused.
                    case.tiers = case.tiers.filter(|all| all.iter().all(|at| *at < tiers.len()));
                    let raw = bytes(case.bytes, kind);
                    let answer = plan(brain, &case, &raw);
                    let costs = find_brain(brain).unwrap().costs(FILE_KEY).unwrap();
                    let (policy, planned) = plan_afresh(&tiers, &case, raw.len() as u64, &costs);
                    let Some(planned) = planned else {
                        prop_assert!(answer.is_none(), "{answer:?}");
                        continue;
                    };
                    prop_assert!(answer.is_some(), "{planned:?}");
                    let (pieces, size) = answer.unwrap();
                    prop_assert_eq!(size.wanted, u32::from(policy.replicas));
                    prop_assert_eq!(size.replicas as usize, planned.replicas.len());
                    let expected = (0u32..).zip(&planned.replicas).flat_map(|(replica, pieces)| {
                        pieces.iter().map(move |piece| {
                            let offset = u64::from(piece.start) * PAGE_BYTES;
                            (replica, u32::from(piece.target), offset, u32::from_le_bytes(piece.encoding.to_bytes()))
                        })
                    });
                    let found: Vec<_> =
                        pieces.iter().map(|piece| (piece.replica, piece.target, piece.offset, piece.encoding)).collect();
                    prop_assert_eq!(&found, &expected.collect::<Vec<_>>(), "{:?}", &planned);
                    for replica in 0..size.replicas {
                        let own = pieces.iter().filter(|piece| piece.replica == replica);
                        let end = own.fold(0, |end, piece| if piece.offset == end { end + piece.length } else { u64::MAX });
                        prop_assert_eq!(end, raw.len() as u64, "the pieces of a replica cover all bytes");
                    }
                    prop_assert!(size.stored <= planned.stored(), "{size:?}");
                    let is_time = |time: f64| time > 0.0 && time.is_finite();
                    prop_assert!(pieces.iter().all(|of| is_time(of.write_seconds) && is_time(of.read_seconds)));
                }
            }
        }
        prop_assert_eq!(terrace_brain_close(brain), BrainStatus::Ok);
    }
}

fn save(brain: *const Brain) -> Vec<u8> {
    let mut length = 0;
    assert_eq!(terrace_brain_save(brain, null_mut(), 0, &mut length), BrainStatus::TooShort);
    let mut saved = vec![0; length];
    assert_eq!(terrace_brain_save(brain, saved.as_mut_ptr().cast(), length, &mut length), BrainStatus::Ok);
    saved
}

fn load(brain: *const Brain, saved: &[u8]) -> BrainStatus {
    terrace_brain_load(brain, saved.as_ptr().cast(), saved.len())
}

fn archive_request() -> RequestCase {
    RequestCase {
        bytes: 0,
        offset: 0,
        requirements: Vec::new(),
        weights: Some("archival"),
        ack: None,
        budget: None,
        tiers: None,
        max_latency: 0.0,
        reads: 0.0,
        replicas: [1, 0, 0],
        volatile: true,
    }
}

/// A slow tier with much room, for which everything is studied.
fn slow_tier() -> Vec<TierCase> {
    let slow = MeasuredSpeed { rate: 1e6, latency: 0.0 };
    let target = TargetCase { domain: None, free: 1 << 40, total: 1 << 40, lanes: 1, load: 0.0, up: true };
    vec![TierCase { persistent: true, reading: slow, writing: slow, watts: 0.0, targets: vec![target] }]
}

/// A brain that has planned, encoded and learned.
fn experienced() -> *mut Brain {
    let brain = create(&slow_tier());
    let (raw, target_seconds) = (bytes(1 << 18, 3), 0.5);
    for block in 0..4 {
        let case = RequestCase { offset: block << 18, ..archive_request() };
        let (pieces, _) = plan(brain, &case, &raw).unwrap();
        let (mut encoding, mut stored, mut made) = (pieces[0].encoding, vec![0u8; raw.len()], 0);
        let (from, to) = (raw.as_ptr().cast::<c_void>(), stored.as_mut_ptr().cast::<c_void>());
        assert_eq!(terrace_brain_encode(&mut encoding, from, raw.len(), to, raw.len(), &mut made), BrainStatus::Ok);
        assert!(made < raw.len() / 4, "{made} bytes");
        let key = text(FILE_KEY);
        let outcome = BrainOutcome {
            key: key.as_ptr(),
            element: null(),
            target: 0,
            encoding: pieces[0].encoding,
            length: raw.len() as u64,
            stored: made as u64,
            codec_seconds: 1e-3,
            target_seconds,
            was_read: 0,
        };
        assert_eq!(terrace_brain_report(brain, &outcome), BrainStatus::Ok);
    }
    brain
}

fn describe(brain: *const Brain) -> serde_json::Value {
    let mut json = null_mut();
    assert_eq!(terrace_brain_describe(brain, &mut json), BrainStatus::Ok);
    #[allow(unsafe_code, reason = "the call has made a text")]
    let described = unsafe { std::ffi::CStr::from_ptr(json) }.to_str().unwrap();
    let described = serde_json::from_str(described).unwrap();
    terrace_brain_free(json);
    described
}

#[test]
fn what_was_learned_is_saved_and_loaded() {
    let (old, new) = (experienced(), create(&slow_tier()));
    assert_eq!(load(new, &save(old)), BrainStatus::Ok);
    let (before, after) = (describe(old), describe(new));
    assert!(before["tiers"][0]["write_latency"].as_f64().unwrap() > 1e-3, "slower than told: {before}");
    assert_eq!(before["tiers"], after["tiers"]);
    let [old_row, new_row] = [&before, &after].map(|described| &described["predictions"]["encodings"][0]);
    assert_eq!((&old_row["encoding"], &old_row["chosen"]), (&new_row["encoding"], &new_row["chosen"]));
    assert_eq!(old_row["chosen"].as_u64(), Some(4), "{before}");
    assert_eq!(after["targets"][0]["free"].as_u64(), Some(1 << 40), "the free bytes are those of the host");
    // Bytes that are too few to be measured are encoded by what is known of their stream. A new brain knows nothing of it.
    let short = bytes(7000, 3);
    let named = |brain| plan(brain, &archive_request(), &short).unwrap().0[0].encoding;
    assert_eq!((named(new) != 0, named(create(&slow_tier())) != 0), (true, false));
    let other = create(&slow_tier());
    assert_eq!(load(other, &save(new)), BrainStatus::Ok, "also what was loaded and not used");
    assert_ne!(named(other), 0);
}

#[test]
fn damaged_bytes_are_not_loaded() {
    let (old, new) = (experienced(), create(&slow_tier()));
    let saved = save(old);
    let before = describe(new);
    for at in (0..saved.len()).step_by(saved.len() / 500) {
        let mut damaged = saved.clone();
        damaged[at] ^= 1 << (at % 8);
        assert_eq!(load(new, &damaged), BrainStatus::Damaged, "a change at {at}");
        assert_eq!(load(new, &saved[..at]), BrainStatus::Damaged, "cut off at {at}");
    }
    assert_eq!(describe(new), before, "nothing has changed");
}
