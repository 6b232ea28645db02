//! What is left out: other orders of the same, and what cannot be better than the best found.

use super::super::candidates::Candidate;
use super::step::longest;
use super::{EVERY_SPLIT, NEAR, NONE, Run, Search};

impl Run<'_> {
    /// Another order of the same: a piece that continues the one before, a replica that could change its place with
    /// the one before, or a target that could change its place with a twin; or a target that does not outlive a
    /// reboot, where the replica has to.
    pub(super) fn pointless(&self, replica: usize, start: u32, index: usize) -> bool {
        let candidate = &self.work.lists[replica.min(1)][index];
        let is_last = self.goal.last_persistent && replica + 1 == self.goal.replicas;
        if is_last && !candidate.persistent {
            return true;
        }
        let target = usize::from(candidate.target);
        let twin = self.work.twins[target];
        if twin != NONE && self.used[target] == 0 && self.used[usize::from(twin)] == 0 {
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

    /// Whether replica 0 ends here with a candidate that comes before the one it begins with: the same scheme, read
    /// backwards, is searched elsewhere.
    pub(super) fn mirrored(&self, replica: usize, end: u32, index: usize) -> bool {
        let begins = self.work.current[0].first();
        let backwards = begins.is_some_and(|piece| index < usize::from(piece.candidate));
        replica == 0 && end == self.goal.pages && backwards && self.every_split && self.work.held.is_empty()
    }

    /// The least that a scheme may cost which goes on from here.
    pub(super) fn least(&self, replica: usize, start: u32) -> (f64, f64) {
        let Search { bounds: [first, rest], free, domains, densest, .. } = &*self.work;
        let pages = u64::from(self.goal.pages);
        let current = pages - u64::from(start);
        let later = (self.goal.replicas - 1 - replica) as u64 * pages;
        let (of_first, of_rest) = if replica == 0 { (current, later) } else { (0, current + later) };
        let one = if start > 0 && current > 0 { self.one_piece(replica.min(1), current) } else { 0.0 };
        let least_first = first.least(of_first, free, domains, 0).max(if replica == 0 { one } else { 0.0 });
        // The budget enters the others' bound only: in async it is what replica 0 leaves of it at most.
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

    /// The longest piece that leaves the other replicas room, if that is shorter than `most`.
    pub(super) fn leaving_room(&mut self, replica: usize, start: u32, index: usize, most: u32) -> Option<u32> {
        let mut fits = |pages: u32| {
            let cost = self.cost;
            let taken = self.put(replica, start, index, pages);
            let Search { bounds, free, domains, shares, .. } = &mut *self.work;
            let mut left = (self.goal.replicas - 1 - replica) as u64 * u64::from(self.goal.pages);
            left += if replica > 0 { u64::from(self.goal.pages - start - pages) } else { 0 };
            shares.clear();
            let fits = bounds[1].shares(left, free, domains, shares);
            self.take_back(replica, index, pages, taken);
            self.cost = cost;
            fits
        };
        if fits(most) { None } else { Some(longest(most, fits)).filter(|pages| *pages > 0) }
    }

    /// The least that so many pages of one replica cost if nothing but a full target is left out.
    pub(super) fn one_piece(&self, class: usize, pages: u64) -> f64 {
        let free = |candidate: &&Candidate| {
            candidate.held || self.work.free[usize::from(candidate.target)] >= u64::from(candidate.stored)
        };
        let price = |candidate: &Candidate| {
            let (fixed, per_page) = candidate.least();
            fixed + per_page * pages
        };
        self.work.lists[class].iter().filter(free).map(price).min().map_or(f64::INFINITY, |least| least as f64)
    }

    /// Whether a scheme of this cost could be better than the best. Costs are whole numbers, bounds are not: half of
    /// one decides.
    pub(super) fn improves(&self, (first, then): (f64, f64)) -> bool {
        let Some(best) = self.best else { return first + then < f64::INFINITY };
        let (best_first, best_then) = (best.first as f64, best.then as f64);
        let share = if self.goal.pages <= EVERY_SPLIT { 0.0 } else { NEAR };
        let step = |best: f64| (best * share).max(0.5);
        if self.alone {
            return first < best_first - step(best_first) && then < f64::INFINITY;
        }
        first < best_first - step(best_first) || (first < best_first + 0.5 && then < best_then - step(best_then))
    }
}
