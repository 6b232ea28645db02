//! The choice between interchangeable targets: the least busy, then the one with the most space.
//!
//! Remembered plans do not contain what differs between interchangeable targets. The choice is made for each request:
//! it depends on the snapshot and on which pieces share a target, not on the targets that the remembered plan names.

use std::cmp::Ordering;

use super::{Piece, Plan, Want};
use crate::policy::Policy;
use crate::snapshot::{MAX_TARGETS, PAGE_BYTES, Snapshot};

/// Replaces each target of a plan by the best interchangeable target that the plan does not use yet.
pub(super) fn choose_among_interchangeable(
    plan: &mut Plan,
    want: &Want,
    present: &[Piece],
    snapshot: &Snapshot,
    policy: &Policy,
) {
    let enough = u64::from(want.pages()) * PAGE_BYTES;
    let targets = snapshot.targets();
    let ample = |target: usize| {
        targets[target].free.saturating_sub(targets[target].reserved) >= enough
            && !present.iter().any(|piece| usize::from(piece.target) == target)
    };
    let mut named = [u8::MAX; MAX_TARGETS];
    let mut taken = 0u64;
    for piece in plan.replicas.iter_mut().flatten() {
        let target = usize::from(piece.target);
        if named[target] == u8::MAX {
            named[target] = piece.target;
            if snapshot.has_twin(target) && ample(target) {
                let alike = |other: &usize| snapshot.alike(*other, target, want.targets, policy) && ample(*other);
                let free = (0..targets.len()).filter(|other| taken >> other & 1 == 0 && alike(other));
                let best = free.min_by(|a, b| compare_targets(snapshot, *a, *b));
                named[target] = best.unwrap_or(target) as u8;
            }
            taken |= 1 << named[target];
        }
        piece.target = named[target];
    }
}

/// Orders targets by load, then by free space (most first), then by index.
fn compare_targets(snapshot: &Snapshot, a: usize, b: usize) -> Ordering {
    let load = |target: usize| snapshot.targets()[target].load;
    let free = |target: usize| snapshot.targets()[target].free.saturating_sub(snapshot.targets()[target].reserved);
    load(a).total_cmp(&load(b)).then(free(b).cmp(&free(a)))
}
