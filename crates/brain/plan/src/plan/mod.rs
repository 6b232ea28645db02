//! Placement of a request's replicas (HReplica IV-C, HCompress IV-F).
//!
//! The problem: cut each of r_n replicas into pieces and assign a target and an encoding to each piece, so that the sum
//! of the costs is minimal. A piece consists of whole pages of 4096 bytes. A replica has at most as many pieces as
//! there are tiers, and as there are lanes. The pieces on a target fit its free space. The replicas of a page are in
//! distinct failure domains. The last replica survives a reboot. If a write does not wait for all replicas, the cost of
//! replica 0 is minimised first, then the cost of the others.
//!
//! The papers walk tiers and codecs by *Match* and *Place*, split a request where the current tier is full, and
//! remember sub-problems. This misses cheaper schemes: two encodings on one target so that both just fit, a fast target
//! left to another replica, replicas that exchange their domains in the middle of a request. The recursion here has the
//! same shape, piece after piece and replica after replica, but tries every candidate and every split. It prunes a
//! branch when a lower bound shows that the branch cannot improve on the best scheme. The bound is the solution of the
//! relaxed problem without whole pages and fixed costs, which sorting solves. Whole requests are remembered instead of
//! sub-problems, because the bound leaves few sub-problems.
//!
//! A request of up to 16 pages is planned exactly, unless the search reaches its step limit. For a longer request, the
//! solution of the bound is first laid out in pieces; it becomes the plan if it is within a thousandth of the bound. If
//! all replicas count together, a Lagrange multiplier for replica 0 first sharpens the bound and its solution. If the
//! solution is still not good enough, the search continues for a limited number of steps and splits only where a target
//! becomes full, empty or forbidden. [`Plan::proven`] reports whether the plan is proven to be optimal.
//!
//! A search considers up to 64 targets. Of more, it considers some of each class of alike targets (`members.rs`).
//!
//! If the replicas that the policy wants do not fit, the wishes that are not strict are dropped one by one
//! ([`GaveWay`]), then fewer replicas are planned.

mod attempts;
mod bound;
pub(crate) mod candidates;
mod choice;
mod goal;
mod held;
mod joint;
mod layout;
mod lengths;
pub(crate) mod members;
mod memo;
pub(crate) mod offers;
mod scheme;
mod search;
mod sharpen;
mod within_budget;
mod work;

pub use candidates::Forbidden;
pub use memo::Memo;
pub use scheme::{Cost, GaveWay, Piece, Plan, ReplicaPlan};
pub use within_budget::plan_within_budget;

use std::fmt;

use self::memo::Key;
use crate::policy::Policy;
use crate::snapshot::{PAGE_BYTES, Snapshot, TargetSet};
use terrace_cost::Costs;

/// A request: its size, its expected reads, and the targets that it may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    /// Its length in bytes; the planner rounds it up to whole pages.
    pub bytes: u64,
    /// The expected number of reads: from its hotness, or 1.
    pub reads: f64,
    /// The targets that may hold its replicas.
    pub targets: TargetSet,
    /// A hash of its bytes' identity. If many targets are alike, it selects about eight of them, and the best of these is
    /// chosen, so that processes that do not know each other's load choose different ones. Without it, all are compared.
    pub hash: Option<u64>,
}

impl Want {
    /// A request of `bytes` bytes that is read once, may use every target, and has no identity.
    pub fn bytes(bytes: u64) -> Want {
        Want { bytes, reads: 1.0, targets: TargetSet::ALL, hash: None }
    }

    pub(crate) fn pages(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES).clamp(1, u32::MAX.into()) as u32
    }
}

/// No target has room for even one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no target that the policy allows has room for one replica")
    }
}

impl std::error::Error for NoRoom {}

/// Returns the cheapest plan for a request on a snapshot. Among alike targets, it prefers the least busy, then the one
/// with the most space.
///
/// # Errors
/// [`NoRoom`].
pub fn plan<'m>(
    want: &Want,
    snapshot: &Snapshot,
    policy: &Policy,
    costs: &Costs,
    memo: &'m mut Memo,
) -> Result<&'m Plan, NoRoom> {
    replan(want, &[], snapshot, policy, costs, memo)
}

/// Returns the cheapest plan for a request that is stored already, in the pieces `present` of any replicas.
///
/// A page that keeps its target and encoding costs a twentieth less than a page that has to be written there, and takes
/// no space. The planner therefore moves nothing to a place that is equal or hardly better. A piece cannot stay if
/// `costs` does not contain its encoding or the policy does not allow its target. The space of pieces that do not stay
/// counts as used, because it is freed only after the move.
///
/// # Errors
/// [`NoRoom`].
pub fn replan<'m>(
    want: &Want,
    present: &[Piece],
    snapshot: &Snapshot,
    policy: &Policy,
    costs: &Costs,
    memo: &'m mut Memo,
) -> Result<&'m Plan, NoRoom> {
    let key = Key::new(want, present, snapshot, policy, costs);
    let plan = memo.get(key, |memo, plan| attempts::make_plan(want, &key, present, snapshot, costs, memo, plan));
    choice::choose_among_interchangeable(plan, want, present, snapshot, policy);
    if plan.replicas.is_empty() { Err(NoRoom) } else { Ok(plan) }
}
