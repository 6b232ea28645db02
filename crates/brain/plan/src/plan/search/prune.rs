//! Pruning: permutations of the same scheme, and branches that cannot improve on the best scheme.

use super::super::candidates::Candidate;
use super::super::goal::NO_TARGET;
use super::step::largest_fitting;
use super::{MAX_EXHAUSTIVE_PAGES, MIN_IMPROVEMENT_SHARE, Run, Search};

impl Run<'_> {
    /// Returns whether a piece need not be tried, because the search tries an equal scheme elsewhere. That is so for a piece
    /// that continues the preceding one on the same candidate, for a replica that could be exchanged with the preceding
    /// one, and for a target that could be exchanged with an unused one. Also returns true for a target that does not
    /// survive a reboot, if the replica must.
    pub(super) fn is_redundant(&self, replica: usize, start: u32, index: usize) -> bool {
        let candidate = &self.work.lists[replica.min(1)][index];
        let is_last = self.goal.last_persistent && replica + 1 == self.goal.replicas;
        if is_last && !candidate.persistent {
            return true;
        }
        let target = usize::from(candidate.target);
        let twin = self.work.twins[target];
        if twin != NO_TARGET && self.used[target] == 0 && self.used[usize::from(twin)] == 0 {
            return true;
        }
        if start > 0 {
            return self.work.current[replica].last().is_some_and(|piece| usize::from(piece.candidate) == index);
        }
        replica > 1
            && self.every_split
            && !is_last
            && self.work.current[replica - 1].first().is_some_and(|p| usize::from(p.candidate) >= index)
    }

    /// Returns whether replica 0 ends with a candidate that precedes the one it begins with. The search visits the
    /// reversed scheme, which costs the same, elsewhere.
    pub(super) fn is_mirrored(&self, replica: usize, end: u32, index: usize) -> bool {
        let begins = self.work.current[0].first();
        let backwards = begins.is_some_and(|piece| index < usize::from(piece.candidate));
        replica == 0 && end == self.goal.pages && backwards && self.every_split && self.work.held.is_empty()
    }

    /// Returns a lower bound of the cost of every scheme that continues from here.
    pub(super) fn lower_bound(&self, replica: usize, start: u32) -> (f64, f64) {
        let Search { bounds: [first, rest], free, domains, densest, .. } = &*self.work;
        let pages = u64::from(self.goal.pages);
        let current = pages - u64::from(start);
        let later = (self.goal.replicas - 1 - replica) as u64 * pages;
        let (of_first, of_rest) = if replica == 0 { (current, later) } else { (0, current + later) };
        let one = if start > 0 && current > 0 { self.least_cost_in_one_piece(replica.min(1), current) } else { 0.0 };
        let least_first = first.least(of_first, free, domains, 0).max(if replica == 0 { one } else { 0.0 });
        // Only the bound of the replicas after the first considers the budget. If the write does not wait for these, they
        // get at most what replica 0 leaves of it.
        let budget = if self.goal.is_async { self.budget.saturating_sub(densest * of_first) } else { self.budget };
        let mut least_rest = rest.least(of_rest, free, domains, budget);
        if replica > 0 && one > 0.0 && self.goal.budget == u64::MAX {
            least_rest = least_rest.max(one + rest.least(later, free, domains, budget));
        }
        if self.goal.is_async {
            return (self.cost.first as f64 + least_first, self.cost.then as f64 + least_rest);
        }
        let mut least = least_first + least_rest;
        if replica == 0 && later > 0 {
            least = least.max(self.work.joint.least([current, later], free, domains, self.budget));
        }
        (self.cost.first as f64 + least, 0.0)
    }

    /// Returns the length of the longest piece that leaves room for the other replicas. `None` if one of `most` pages does,
    /// or if none does.
    pub(super) fn longest_leaving_room(&mut self, replica: usize, start: u32, index: usize, most: u32) -> Option<u32> {
        let mut fits = |pages: u32| {
            let cost = self.cost;
            let taken = self.add_piece(replica, start, index, pages);
            let Search { bounds, free, domains, shares, .. } = &mut *self.work;
            let mut left = (self.goal.replicas - 1 - replica) as u64 * u64::from(self.goal.pages);
            left += if replica > 0 { u64::from(self.goal.pages - start - pages) } else { 0 };
            shares.clear();
            let fits = bounds[1].shares(left, free, domains, shares);
            self.remove_piece(replica, index, pages, taken);
            self.cost = cost;
            fits
        };
        if fits(most) { None } else { Some(largest_fitting(most, fits)).filter(|pages| *pages > 0) }
    }

    /// Returns the least cost of a replica's `pages` pages in one piece. Of the pieces placed so far, it only considers
    /// which targets they have filled.
    pub(super) fn least_cost_in_one_piece(&self, class: usize, pages: u64) -> f64 {
        let free = |candidate: &&Candidate| {
            candidate.held || self.work.free[usize::from(candidate.target)] >= u64::from(candidate.stored)
        };
        let price = |candidate: &Candidate| {
            let (fixed, per_page) = candidate.least_prices();
            fixed + per_page * pages
        };
        self.work.lists[class].iter().filter(free).map(price).min().map_or(f64::INFINITY, |least| least as f64)
    }

    /// Returns whether a scheme with this bound could improve on the best. The bound must be lower by at least a half,
    /// because costs are integers and bounds are not.
    pub(super) fn improves(&self, (first, then): (f64, f64)) -> bool {
        let Some(best) = self.best else { return first + then < f64::INFINITY };
        let (best_first, best_then) = (best.first as f64, best.then as f64);
        let share = if self.goal.pages <= MAX_EXHAUSTIVE_PAGES { 0.0 } else { MIN_IMPROVEMENT_SHARE };
        let step = |best: f64| (best * share).max(0.5);
        if self.first_replica_only {
            return first < best_first - step(best_first) && then < f64::INFINITY;
        }
        first < best_first - step(best_first) || (first < best_first + 0.5 && then < best_then - step(best_then))
    }
}
