//! The space and the cost of a piece.

use super::super::candidates::Candidate;
use super::super::held::{count_kept_pages, discount_staying};
use super::Run;

impl Run<'_> {
    /// Adds a piece: takes its space and adds its cost. Returns the bytes that it takes of its target.
    pub(super) fn add_piece(&mut self, replica: usize, start: u32, index: usize, pages: u32) -> u64 {
        let candidate = self.work.lists[replica.min(1)][index];
        let (price, new) = self.price_piece(&candidate, start, pages);
        let taken = u64::from(candidate.stored) * u64::from(new);
        if self.goal.is_async && replica > 0 {
            self.cost.then += price;
        } else {
            self.cost.first += price;
        }
        self.work.free[usize::from(candidate.target)] -= taken;
        self.work.domains[usize::from(candidate.domain)] -= pages;
        self.used[usize::from(candidate.target)] += 1;
        self.budget -= u64::from(candidate.stored) * u64::from(pages);
        self.left -= u64::from(pages);
        taken
    }

    pub(super) fn remove_piece(&mut self, replica: usize, index: usize, pages: u32, taken: u64) {
        let candidate = self.work.lists[replica.min(1)][index];
        self.work.free[usize::from(candidate.target)] += taken;
        self.work.domains[usize::from(candidate.domain)] += pages;
        self.used[usize::from(candidate.target)] -= 1;
        self.budget += u64::from(candidate.stored) * u64::from(pages);
        self.left += u64::from(pages);
    }

    /// Returns the cost of a piece, and the number of its pages that are not stored there yet.
    pub(super) fn price_piece(&self, candidate: &Candidate, start: u32, pages: u32) -> (u64, u32) {
        if !candidate.held {
            return (candidate.cost(pages), pages);
        }
        let kept = |end| count_kept_pages(&self.work.held, candidate.target, candidate.encoding, start, end);
        let (stay, begins) = (kept(start + pages), kept(start + 1) == 1);
        let fixed = if begins { discount_staying(candidate.fixed) } else { candidate.fixed };
        let (new, per_page) = (pages - stay, candidate.per_page);
        (fixed + per_page * u64::from(new) + discount_staying(per_page) * u64::from(stay), new)
    }

    /// Returns how many pages from `start` on the candidate can take. The limits are the free space, the pieces of
    /// earlier replicas, and the budget that the remaining pages need.
    pub(super) fn count_fitting_pages(&self, candidate: &Candidate, replica: usize, start: u32) -> u32 {
        let stored = u64::from(candidate.stored);
        let free = self.work.free[usize::from(candidate.target)];
        let rest = self.goal.pages - start;
        let mut most = (free / stored).min(rest.into()) as u32;
        if candidate.held {
            let fits = |pages: u32| u64::from(self.price_piece(candidate, start, pages).1) * stored <= free;
            most = largest_fitting(rest, fits);
        }
        for piece in self.work.current[..replica].iter().flatten() {
            if piece.end > start && piece.excludes & candidate.excludes != 0 {
                most = most.min(piece.start.saturating_sub(start));
            }
        }
        if self.goal.budget == u64::MAX {
            return most;
        }
        let Some(spare) = self.budget.checked_sub(self.work.densest * self.left) else { return 0 };
        match stored - self.work.densest {
            0 => most,
            more => most.min((spare / more).min(u64::from(u32::MAX)) as u32),
        }
    }
}

/// Returns the largest number up to `most` for which `fits` holds. `fits` must hold for 0 and for every number below
/// one for which it holds.
pub(super) fn largest_fitting(most: u32, mut fits: impl FnMut(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}
