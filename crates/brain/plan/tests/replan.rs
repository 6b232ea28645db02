//! Replanning stored data moves as little as possible.

mod storage;

use proptest::prelude::*;
use storage::{BYTES_PER_MIB, expected, storage, targets, tiers};
use terrace_codec::{ALL_ENCODINGS, Encoding};
use terrace_cost::Costs;
use terrace_cost::Weights;
use terrace_plan::plan::{Memo, Piece, Want, plan, replan};
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::Snapshot;

const TIER_LEVELS: [storage::Level; 3] =
    [("ram", false, 1, 2e9, 1e-6, 64), ("nvme", true, 3, 1e9, 1e-4, 64), ("pfs", true, 4, 1e8, 5e-3, 4096)];

fn codecs() -> Costs {
    Costs::new([(ALL_ENCODINGS[1], expected(700e6, 2e9, 1.5)), (ALL_ENCODINGS[2], expected(100e6, 900e6, 2.5))])
}

fn stored(pieces: &[Vec<Piece>]) -> Vec<Piece> {
    pieces.concat()
}

fn planned(snapshot: &Snapshot, policy: &Policy) -> Vec<Vec<Piece>> {
    let mut memo = Memo::default();
    let plan = plan(&Want::bytes(BYTES_PER_MIB), snapshot, policy, &codecs(), &mut memo).expect("room");
    plan.replicas.iter().map(|pieces| pieces.to_vec()).collect()
}

#[test]
fn replicas_do_not_move_to_equally_good_places() {
    let (names, mut all) = tiers(&TIER_LEVELS);
    let before = planned(&storage(&TIER_LEVELS), &Policy::default());
    // The targets are busier, fuller and slightly slower now.
    for piece in before.iter().flatten() {
        let target = &mut all[usize::from(piece.target)];
        (target.load, target.free, target.write) = (2.0, BYTES_PER_MIB / 2, target.write / 1.02);
    }
    let now = Snapshot::new(names, all, 5.0).expect("a snapshot");
    let policy = Policy::default();
    let mut memo = Memo::default();
    let plan = replan(&Want::bytes(BYTES_PER_MIB), &stored(&before), &now, &policy, &codecs(), &mut memo);
    let plan = plan.expect("room");
    assert_eq!(plan.moves, 0, "{plan:#?}");
    assert_eq!(targets(plan).concat(), stored(&before).iter().map(|piece| piece.target).collect::<Vec<_>>());
}

#[test]
fn only_replicas_of_a_lost_target_move() {
    let (names, mut all) = tiers(&TIER_LEVELS);
    let before = planned(&storage(&TIER_LEVELS), &Policy::default());
    let lost = before[1][0];
    all[usize::from(lost.target)].up = false;
    let now = Snapshot::new(names, all, 5.0).expect("a snapshot");
    let mut memo = Memo::default();
    let plan = replan(&Want::bytes(BYTES_PER_MIB), &stored(&before), &now, &Policy::default(), &codecs(), &mut memo);
    let plan = plan.expect("room");
    assert_eq!((plan.replicas.len(), plan.moves), (3, lost.stored), "{plan:#?}");
}

#[test]
fn a_requirement_for_density_reencodes() {
    let snapshot = storage(&TIER_LEVELS);
    let fast = Policy { first: Weights::ASYNCHRONOUS, rest: Weights::ASYNCHRONOUS, ..Policy::default() };
    let before = planned(&snapshot, &fast);
    assert!(stored(&before).iter().all(|piece| piece.encoding == Encoding::NONE || piece.encoding == ALL_ENCODINGS[1]));
    let dense = Policy { first: Weights::ARCHIVAL, rest: Weights::ARCHIVAL, ..Policy::default() };
    let mut memo = Memo::default();
    let plan =
        replan(&Want::bytes(BYTES_PER_MIB), &stored(&before), &snapshot, &dense, &codecs(), &mut memo).expect("room");
    assert!(plan.replicas.iter().flatten().all(|piece| piece.encoding == ALL_ENCODINGS[2]), "{plan:#?}");
    assert_eq!(plan.moves, plan.stored());
}

proptest! {
    #[test]
    fn replanning_an_executed_plan_moves_nothing(
        pages in prop_oneof![1u64..=8, 1u64..4000],
        free in prop::collection::vec(prop_oneof![0u64..16 * 4096, 0u64..4000 * 4096], 8),
        replicas in 1u8..=4,
        archival in any::<bool>(),
    ) {
        let (names, mut all) = tiers(&TIER_LEVELS);
        all.iter_mut().zip(&free).for_each(|(target, free)| target.free = *free);
        let weights = if archival { Weights::ARCHIVAL } else { Weights::EQUAL };
        let policy = Policy { replicas, first: weights, rest: weights, ..Policy::default() };
        let want = Want::bytes(pages * 4096);
        let snapshot = Snapshot::new(names.clone(), all.clone(), 5.0).expect("a snapshot");
        let Ok(plan) = plan(&want, &snapshot, &policy, &codecs(), &mut Memo::new(0)).cloned() else { return Ok(()) };
        let present: Vec<Piece> = plan.replicas.concat();
        // The remaining space of an almost full target goes to others.
        all.iter_mut().filter(|target| target.free < pages * 4096).for_each(|target| target.free = 0);
        let now = Snapshot::new(names, all, 5.0).expect("a snapshot");
        let again = replan(&want, &present, &now, &policy, &codecs(), &mut Memo::new(0)).cloned();
        let again = again.expect("what is there has room");
        // A plan that is not proven may be improved, and a long plan by a thousandth.
        let fine = if pages <= 16 { again.moves == 0 } else { again.moves * 20 <= plan.stored() };
        prop_assert!(fine || !plan.proven, "{:#?} after {:#?}", again, plan);
    }
}
