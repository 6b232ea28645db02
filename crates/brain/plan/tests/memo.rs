//! A remembered plan costs no allocation, and equals a new plan.
#![allow(unsafe_code, reason = "an allocator that counts is unsafe to write")]

mod storage;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use storage::{BYTES_PER_MIB, expected, storage};
use terrace_codec::ALL_ENCODINGS;
use terrace_cost::Costs;
use terrace_plan::plan::{Memo, Want, plan};
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::{Snapshot, Target};

struct Counting;

thread_local! {
    static ALLOCATION_COUNT: AtomicUsize = const { AtomicUsize::new(0) };
}

/// SAFETY: every call is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.with(|count| count.fetch_add(1, Ordering::Relaxed));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING_ALLOCATOR: Counting = Counting;

fn codecs() -> Costs {
    Costs::new([(ALL_ENCODINGS[1], expected(700e6, 2e9, 1.5)), (ALL_ENCODINGS[2], expected(300e6, 900e6, 2.1))])
}

#[test]
fn a_hit_allocates_nothing() {
    let levels = [("ram", false, 1, 2e9, 1e-6, 3), ("nvme", true, 4, 1e9, 1e-4, 64), ("pfs", true, 6, 1e8, 5e-3, 4096)];
    let (mut snapshot, codecs) = (storage(&levels), codecs());
    let policy = Policy { replicas: 5, ..Policy::default() };
    let wants = [Want::bytes(4096), Want::bytes(BYTES_PER_MIB), Want::bytes(8 * BYTES_PER_MIB)];
    let mut memo = Memo::new(64);
    for want in &wants {
        let made = plan(want, &snapshot, &policy, &codecs, &mut memo).expect("room");
        assert_eq!(made.replicas.len(), 5);
    }
    assert_eq!((memo.hits, memo.misses), (0, 3));
    let before = ALLOCATION_COUNT.with(|count| count.load(Ordering::Relaxed));
    for round in 0..1000u64 {
        // The space of targets with enough room affects only the choice between interchangeable targets.
        snapshot.set_space(1 + round as usize % 4, (32 + round % 7) * BYTES_PER_MIB, 0);
        for want in &wants {
            plan(want, &snapshot, &policy, &codecs, &mut memo).expect("room");
        }
    }
    let after = ALLOCATION_COUNT.with(|count| count.load(Ordering::Relaxed));
    assert_eq!(after - before, 0, "allocations");
    assert_eq!((memo.hits, memo.misses), (3000, 3));
    assert!((memo.hit_rate() - 3000.0 / 3003.0).abs() < 1e-12);
}

proptest! {
    #[test]
    fn remembered_plans_equal_new_plans(
        states in prop::collection::vec((0usize..7, 0u64..40, 0u64..30, 0usize..3, 1u64..600, 0usize..3), 1..60),
    ) {
        let levels = [("ram", false, 1, 2e9, 1e-6, 1), ("nvme", true, 3, 1e9, 1e-4, 8), ("pfs", true, 3, 1e8, 5e-3, 64)];
        let (tiers, mut targets) = storage::tiers(&levels);
        let codecs = codecs();
        let mut memo = Memo::new(16);
        for (target, space, load, policy, pages, taken) in states {
            targets[target] = Target { free: space * 100_000, load: load as f64 / 10.0, ..targets[target].clone() };
            let snapshot = Snapshot::new(tiers.clone(), targets.clone(), 5.0).expect("a snapshot");
            let snapshot = snapshot.filled([[0.0, 0.0], [0.4, 0.0], [0.8, 0.3]][taken]);
            let policy = [
                Policy::default(),
                Policy { spread: true, ..Policy::default() },
                Policy { max_latency: Some(1e-4), ..Policy::default() },
            ][policy];
            let want = Want::bytes(pages * 4096);
            let remembered = plan(&want, &snapshot, &policy, &codecs, &mut memo).cloned();
            let made = plan(&want, &snapshot, &policy, &codecs, &mut Memo::new(0)).cloned();
            prop_assert_eq!(remembered, made);
        }
    }
}
