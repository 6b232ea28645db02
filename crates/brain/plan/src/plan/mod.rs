//! Where the replicas of a request go (HReplica IV-C, HCompress IV-F).
//!
//! The problem: each of r_n replicas is cut into pieces, each piece put on a target in an encoding, so that the sum of
//! their costs is least. Pieces are whole pages of 4096 bytes; a replica has at most as many as there are tiers and as
//! lanes; what is put on a target fits its free space; replicas of a page lie in distinct domains; the last replica
//! outlives a reboot. Where a write does not wait, replica 0 is made as cheap as can be first, then the others.
//!
//! The papers walk tiers and codecs by *Match* and *Place*, split where the present tier is full, and remember
//! sub-problems. That misses schemes that are cheaper: two encodings on one target so that both just fit, a fast target
//! left to another replica, replicas that change places between two domains in mid-request. Here the same recursion,
//! piece after piece and replica after replica, tries each candidate and each split, and is cut where a bound
//! says that nothing better can follow; the bound comes from the problem without whole pages and fixed costs, which is
//! solved by sorting. Whole requests are remembered, not sub-problems: the bound leaves few of these.
//!
//! A request of up to 16 pages is planned exactly, if the search is not cut short. A longer one begins with the bound's
//! own solution, laid out in pieces; that is the plan if it is within a thousandth of the bound. Where all replicas
//! count together, the bound and its solution are first made sharper by a price for being replica 0. Otherwise the search
//! goes on for some steps, with splits only where something becomes full, empty or forbidden. [`Plan::proven`] says
//! which.
//!
//! If the policy's replicas have no room, wishes that are not strict give way ([`GaveWay`]), then fewer are planned.

mod attempts;
mod bound;
pub(crate) mod candidates;
mod choice;
mod held;
mod joint;
mod layout;
mod lengths;
mod memo;
pub(crate) mod offers;
mod scheme;
mod search;

pub use candidates::Forbidden;
pub use memo::Memo;
pub use scheme::{Cost, GaveWay, Piece, Plan, ReplicaPlan};

use std::fmt;

use self::memo::Key;
use crate::policy::Policy;
use crate::snapshot::{PAGE, Snapshot, TargetSet};
use terrace_cost::Costs;

/// A request: so many bytes, expected to be read so many times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// Its length. Planned in whole pages.
    pub bytes: u64,
    /// How often it is expected to be read; from its hotness, or 1.
    pub reads: f64,
    /// The targets that it may be put on.
    pub targets: TargetSet,
}

impl Want {
    /// A request of so many bytes that is read once, wherever it is put.
    pub fn bytes(bytes: u64) -> Want {
        Want { bytes, reads: 1.0, targets: TargetSet::ALL }
    }

    pub(crate) fn pages(&self) -> u32 {
        self.bytes.div_ceil(PAGE).clamp(1, u32::MAX.into()) as u32
    }
}

/// Not even one replica has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no target that the policy allows has room for one replica")
    }
}

impl std::error::Error for NoRoom {}

/// The cheapest plan for a request, with respect to the snapshot. Of targets that are alike, the least busy are taken,
/// then those with the most space.
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

/// The cheapest plan for what is stored already, in the pieces of `present`, of whatever replicas.
///
/// A page that stays where it is, as it is, counts for a twentieth less than one that is to be written there and takes
/// no space, so that nothing is moved for what is as good or hardly better. Pieces in an encoding that `costs` does not
/// hold, or on a target that the policy does not allow, cannot stay. The space of what does not stay counts as taken:
/// it is freed only after the move.
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
    let plan = memo.get(key, |memo, plan| attempts::make(&key, present, snapshot, costs, memo, plan));
    choice::choose(plan, want, present, snapshot, policy);
    if plan.replicas.is_empty() { Err(NoRoom) } else { Ok(plan) }
}
