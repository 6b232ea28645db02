//! What a piece takes and costs.

use super::super::candidates::Candidate;
use super::super::held::{kept, staying};
use super::Run;

impl Run<'_> {
    /// Takes a piece's space and adds its cost; gives the bytes that it takes of its target.
    pub(super) fn put(&mut self, replica: usize, start: u32, index: usize, pages: u32) -> u64 {
        let candidate = self.work.lists[replica.min(1)][index];
        let (price, new) = self.price(&candidate, start, pages);
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

    pub(super) fn take_back(&mut self, replica: usize, index: usize, pages: u32, taken: u64) {
        let candidate = self.work.lists[replica.min(1)][index];
        self.work.free[usize::from(candidate.target)] += taken;
        self.work.domains[usize::from(candidate.domain)] += pages;
        self.used[usize::from(candidate.target)] -= 1;
        self.budget += u64::from(candidate.stored) * u64::from(pages);
        self.left += u64::from(pages);
    }

    /// What a piece costs, and how many of its pages are not there yet.
    pub(super) fn price(&self, candidate: &Candidate, start: u32, pages: u32) -> (u64, u32) {
        if !candidate.held {
            return (candidate.cost(pages), pages);
        }
        let kept = |end| kept(&self.work.held, candidate.target, candidate.encoding, start, end);
        let (stay, begins) = (kept(start + pages), kept(start + 1) == 1);
        let fixed = if begins { staying(candidate.fixed) } else { candidate.fixed };
        let (new, per_page) = (pages - stay, candidate.per_page);
        (fixed + per_page * u64::from(new) + staying(per_page) * u64::from(stay), new)
    }

    /// How many pages from `start` on the candidate can take: what fits, what no earlier replica forbids, what leaves
    /// enough of the budget.
    pub(super) fn room(&self, candidate: &Candidate, replica: usize, start: u32) -> u32 {
        let stored = u64::from(candidate.stored);
        let free = self.work.free[usize::from(candidate.target)];
        let rest = self.goal.pages - start;
        let mut most = (free / stored).min(rest.into()) as u32;
        if candidate.held {
            let fits = |pages: u32| u64::from(self.price(candidate, start, pages).1) * stored <= free;
            most = longest(rest, fits);
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

/// The largest number up to `most` for which `fits` holds; it holds for 0 and for all below one for which it does.
pub(super) fn longest(most: u32, mut fits: impl FnMut(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}
