//! A line on which shares are laid one after another.

use super::super::candidates::Candidate;
use super::super::goal::{Goal, Placed};
use super::super::scheme::Cost;
use super::super::work::Search;

/// The current end of the line.
#[derive(Default)]
pub(super) struct Line {
    replica: usize,
    page: u32,
    /// The domain whose shares come first.
    first: Option<u8>,
}

impl Line {
    /// Returns a line on which the shares of this domain come first.
    pub fn beginning_with(first: Option<u8>) -> Line {
        Line { first, ..Line::default() }
    }

    /// Lays the shares one after another, beginning with a replica. Shares that do not survive a reboot come first, so
    /// that the last replica survives one.
    pub fn lay_out(&mut self, goal: &Goal, work: &mut Search, replica: usize) -> bool {
        (self.replica, self.page) = (replica, 0);
        let Search { lists, shares, current, .. } = work;
        let of = |target: u8| lists.iter().flatten().find(|candidate| candidate.target == target);
        let place = |target: u8| of(target).map(|of| (Some(of.domain) != self.first, of.persistent, of.domain));
        shares.sort_unstable_by_key(|share| (place(share.target), share.target, share.stored));
        for share in shares.iter() {
            let mut left = share.pages;
            while left > 0 {
                let fits = |of: &&Candidate| of.target == share.target && of.stored <= share.stored;
                let list = lists[self.replica.min(1)].iter().enumerate();
                let best = list.filter(|(_, of)| fits(of)).min_by_key(|(_, of)| of.per_page);
                let Some((index, candidate)) = best else { return false };
                let pages = left.min(goal.pages - self.page);
                let (start, end, excludes) = (self.page, self.page + pages, candidate.excludes);
                current[self.replica].push(Placed { candidate: index as u16, start, end, excludes });
                left -= pages;
                self.page = end;
                if self.page == goal.pages {
                    (self.replica, self.page) = (self.replica + 1, 0);
                }
            }
        }
        true
    }
}

/// Returns whether the layout is a valid scheme.
pub(super) fn is_valid(goal: &Goal, work: &Search) -> bool {
    let replicas = &work.current[..goal.replicas];
    let of = |replica: usize, piece: &Placed| work.lists[replica.min(1)][usize::from(piece.candidate)];
    let mut stored = 0;
    for (replica, pieces) in replicas.iter().enumerate() {
        let last = goal.last_persistent && replica + 1 == goal.replicas;
        for piece in pieces {
            let candidate = of(replica, piece);
            stored += u64::from(candidate.stored) * u64::from(piece.end - piece.start);
            let meets = |other: &Placed| {
                other.start < piece.end && piece.start < other.end && other.excludes & piece.excludes != 0
            };
            let twice = replicas[..replica].iter().flatten().any(meets);
            if twice || (last && !candidate.persistent) || (candidate.whole && pieces.len() > 1) {
                return false;
            }
        }
        if pieces.len() > goal.pieces || pieces.last().is_none_or(|piece| piece.end != goal.pages) {
            return false;
        }
    }
    stored <= goal.budget
}

/// Returns the cost of the layout.
pub(super) fn compute_cost(goal: &Goal, work: &Search) -> Cost {
    let mut cost = Cost::default();
    for (replica, pieces) in work.current[..goal.replicas].iter().enumerate() {
        for piece in pieces {
            let price = work.lists[replica.min(1)][usize::from(piece.candidate)].cost(piece.end - piece.start);
            *(if goal.is_async && replica > 0 { &mut cost.then } else { &mut cost.first }) += price;
        }
    }
    cost
}
