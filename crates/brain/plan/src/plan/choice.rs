//! The choice between alike targets: one of this machine, then the least busy, then the one with the most space, then by hash or index.
//!
//! Remembered plans do not contain what differs between alike targets. The choice is made for each request: it depends on
//! the snapshot and on which pieces share a target or a failure domain.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::{Piece, Plan, Want};
use crate::mix::mix;
use crate::policy::Policy;
use crate::snapshot::{PAGE_BYTES, Snapshot};

/// About this many targets of a class are compared. The best of a few is nearly as idle and as empty as the best of all,
/// and processes that do not know each other's load do not all choose the same one.
const COMPARED_TARGETS: u64 = 8;

/// Replaces each target of a plan by the best target of its class that has room for the whole request, so that no two
/// targets of the plan are in one failure domain. Targets that share a domain already, or hold pieces of the request,
/// stay.
pub(super) fn choose_among_interchangeable(
    plan: &mut Plan,
    want: &Want,
    present: &[Piece],
    snapshot: &Snapshot,
    policy: &Policy,
) {
    let enough = u64::from(want.pages()) * PAGE_BYTES;
    let ample =
        |target: u16| free_bytes(snapshot, target) >= enough && !present.iter().any(|piece| piece.target == target);
    let mut used: SmallVec<[Used; 16]> = SmallVec::new();
    for piece in plan.replicas.iter().flatten() {
        if used.iter().any(|used| used.named == piece.target) {
            continue;
        }
        let domain = snapshot.domain(piece.target.into());
        let mut is_fixed = snapshot.members(piece.target.into()).len() == 1 || !ample(piece.target);
        for other in used.iter_mut().filter(|other| other.domain == domain) {
            (is_fixed, other.is_fixed) = (true, true);
        }
        used.push(Used { named: piece.target, chosen: piece.target, domain, is_fixed });
    }
    for at in 0..used.len() {
        if used[at].is_fixed {
            continue;
        }
        // All targets of a class at once: the domains of those that wait are free for each of them, and for no other
        // class. So each finds at least one.
        let class = snapshot.class(used[at].named.into(), policy);
        let members = snapshot.members(used[at].named.into());
        // Whether the policy divides the class.
        let is_divided = policy.max_latency.is_some() || policy.spread;
        let most = highest_compared(want.hash, members.len() as u64);
        let waits = |used: &Used| !used.is_fixed && snapshot.class(used.named.into(), policy) == class;
        let mut taken: SmallVec<[u16; 16]> = used.iter().filter(|used| !waits(used)).map(|used| used.domain).collect();
        for used in used[at..].iter_mut().filter(|used| waits(used)) {
            let fits = |other: &u16| {
                ample(*other)
                    && !taken.contains(&snapshot.domain((*other).into()))
                    && want.targets.has((*other).into())
                    && (!is_divided || snapshot.class((*other).into(), policy) == class)
            };
            let all = || members.iter().copied().filter(fits);
            let order = |other: u16| want.hash.map_or(other.into(), |hash| mix(hash, other.into()));
            let is_compared = |other: u16| snapshot.targets()[usize::from(other)].near || order(other) <= most;
            let some = all().filter(|other| is_compared(*other));
            let best = some.min_by_key(|other| (rank_target(snapshot, *other), order(*other)));
            let best = best.or_else(|| all().min_by_key(|other| rank_target(snapshot, *other)));
            used.chosen = best.unwrap_or(used.named);
            (used.domain, used.is_fixed) = (snapshot.domain(used.chosen.into()), true);
            taken.push(used.domain);
        }
    }
    for piece in plan.replicas.iter_mut().flatten() {
        if let Some(used) = used.iter().find(|used| used.named == piece.target) {
            piece.target = used.chosen;
        }
    }
}

/// A target that a plan uses, and the one that replaces it.
struct Used {
    named: u16,
    chosen: u16,
    /// The failure domain of the chosen one.
    domain: u16,
    /// The choice is final.
    is_fixed: bool,
}

fn free_bytes(snapshot: &Snapshot, target: u16) -> u64 {
    let target = &snapshot.targets()[usize::from(target)];
    target.free.saturating_sub(target.reserved)
}

/// Returns the highest hash of targets that are compared. All are compared if they are few, or the request has no hash.
fn highest_compared(hash: Option<u64>, members: u64) -> u64 {
    let is_limited = hash.is_some() && members > COMPARED_TARGETS;
    if is_limited { u64::MAX / members * COMPARED_TARGETS } else { u64::MAX }
}

/// Orders targets of a class: those of this machine first, then by load, then by free space (most first).
fn rank_target(snapshot: &Snapshot, target: u16) -> (bool, u64, Reverse<u64>) {
    let described = &snapshot.targets()[usize::from(target)];
    // The bits of positive floats are in the order of the floats.
    (!described.near, described.load.to_bits(), Reverse(free_bytes(snapshot, target)))
}
