//! Candidate lengths for the pieces of a long replica.

use smallvec::SmallVec;

use super::candidates::Candidate;
use super::goal::Goal;
use super::work::Search;

/// Returns the lengths to try for a piece of `candidate` that begins at `start` and has at most `most` pages, longest
/// first: `most`; the length that leaves exactly as many pages as another target can hold; the length at which two
/// encodings fill their common target or the budget; the ends of earlier replicas' pieces; and the ends of runs that
/// are stored already.
pub(super) fn collect_piece_lengths(
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
            add(pages_that_fill(whole, room, stored, dense));
        }
    }
    if goal.budget < u64::MAX {
        let later = (goal.replicas - 1 - replica) as u64 * pages;
        for other in work.lists.iter().flatten().filter(|other| other.convex) {
            let dense = u64::from(other.stored);
            for after in [work.densest, dense, stored] {
                add(pages_that_fill(rest, budget.saturating_sub(later * after), stored, dense));
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

/// Returns how many of `pages` pages have to be stored in `stored` bytes each, and the remaining ones in `other` bytes
/// each, to fill `room` bytes.
fn pages_that_fill(pages: u64, room: u64, stored: u64, other: u64) -> u64 {
    match other.cmp(&stored) {
        std::cmp::Ordering::Less => room.saturating_sub(pages * other) / (stored - other),
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => (pages * other).saturating_sub(room).div_ceil(other - stored),
    }
}
