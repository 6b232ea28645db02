//! Where a long replica may be split.

use smallvec::SmallVec;

use super::candidates::Candidate;
use super::search::{Goal, Search};

/// The lengths worth trying for a piece of `candidate` that begins at `start` and may be `most` pages long, longest
/// first: `most`; what leaves for another piece as much as that one's target holds; what of two encodings on one target
/// fills it, or the budget; the cuts of earlier replicas; where something that is there already begins or ends.
pub(super) fn lengths(
    work: &Search,
    goal: &Goal,
    budget: u64,
    candidate: &Candidate,
    replica: usize,
    start: u32,
    most: u32,
) -> SmallVec<[u32; 24]> {
    let mut lengths: SmallVec<[u32; 24]> = SmallVec::new();
    let (rest, pages) = (u64::from(goal.pages - start), u64::from(goal.pages));
    let mut add = |length: u64| {
        if (1..=u64::from(most)).contains(&length) {
            lengths.push(length as u32);
        }
    };
    add(most.into());
    let stored = u64::from(candidate.stored);
    for other in
        work.lists.iter().flatten().filter(|other| other.convex && (other.tight || other.target == candidate.target))
    {
        let (room, dense) = (work.free[usize::from(other.target)], u64::from(other.stored));
        if other.target != candidate.target {
            add(rest.saturating_sub(room / dense));
            continue;
        }
        for whole in [rest, pages] {
            add(fill(whole, room, stored, dense));
        }
    }
    if goal.budget < u64::MAX {
        let later = (goal.replicas - 1 - replica) as u64 * pages;
        for other in work.lists.iter().flatten().filter(|other| other.convex) {
            let dense = u64::from(other.stored);
            for after in [work.densest, dense, stored] {
                add(fill(rest, budget.saturating_sub(later * after), stored, dense));
            }
        }
    }
    let cuts = work.current[..replica].iter().flatten().map(|piece| (piece.start, piece.end));
    for (from, to) in cuts.chain(work.held.iter().map(|held| (held.start, held.end))) {
        add(u64::from(from.saturating_sub(start)));
        add(u64::from(to.saturating_sub(start)));
    }
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    lengths
}

/// How many of so many pages, stored one way, and the others the other way, fill the room.
fn fill(pages: u64, room: u64, stored: u64, other: u64) -> u64 {
    match other.cmp(&stored) {
        std::cmp::Ordering::Less => room.saturating_sub(pages * other) / (stored - other),
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => (pages * other).saturating_sub(room).div_ceil(other - stored),
    }
}
