//! The branch-and-bound search: it goes replica after replica, piece after piece, and skips what cannot improve on the
//! best scheme.

mod prune;
mod settle;
mod step;

use super::candidates::Candidate;
use super::goal::{Goal, Placed};
use super::layout::lay_out_bound;
use super::lengths::collect_piece_lengths;
use super::scheme::Cost;
use super::work::{Search, Step};
use crate::policy::Replicas;
use crate::snapshot::MAX_SEARCHED_TARGETS;

/// The maximum number of pages for which every split is tried. Longer requests are split only where a target or the
/// budget becomes full, or a piece becomes empty or forbidden.
pub(super) const MAX_EXHAUSTIVE_PAGES: u32 = 16;
/// For requests of more than [`MAX_EXHAUSTIVE_PAGES`] pages, the search ignores schemes that are cheaper by less than
/// this share.
const MIN_IMPROVEMENT_SHARE: f64 = 0.001;
/// The state of one search.
struct Run<'a> {
    goal: Goal,
    work: &'a mut Search,
    cost: Cost,
    best: Option<Cost>,
    /// The number of pages of all replicas that are not placed yet.
    left: u64,
    budget: u64,
    count: u32,
    done: bool,
    /// The search reached its step limit.
    cut: bool,
    /// Search for the cheapest replica 0 only, and require merely that the bound finds room for the others.
    first_replica_only: bool,
    /// A lower bound of the cost of every scheme.
    floor: (f64, f64),
    /// Some candidate cannot hold a whole replica, or holds a part of it already, so that splits may reduce the cost.
    tight: bool,
    /// Every split is tried, so that permutations of the same scheme can be skipped.
    every_split: bool,
    used: [u16; MAX_SEARCHED_TARGETS],
}

/// Finds the cheapest scheme and stores it in `best`. Returns its cost, or None if there is no scheme, and whether it
/// is proven to be the cheapest.
///
/// If a write does not wait for all replicas, the search first fixes the cheapest cost of replica 0, and then minimises
/// the cost of the others for one of the cheapest placements of replica 0.
pub(super) fn search(mut goal: Goal, work: &mut Search) -> (Option<Cost>, bool) {
    work.current.resize_with(usize::from(Replicas::MAX_COUNT), Vec::new);
    work.best.resize_with(usize::from(Replicas::MAX_COUNT), Vec::new);
    work.current.iter_mut().for_each(Vec::clear);
    let splits = |candidate: &Candidate| candidate.tight || candidate.held;
    let tight = goal.budget < u64::MAX || work.lists.iter().flatten().any(splits);
    if goal.pages > MAX_EXHAUSTIVE_PAGES {
        goal.steps = (goal.steps / 100).max(1);
    }
    let mut run = Run {
        goal,
        work,
        cost: Cost::default(),
        best: None,
        left: goal.replicas as u64 * u64::from(goal.pages),
        budget: goal.budget,
        count: 0,
        done: false,
        cut: false,
        first_replica_only: false,
        floor: (0.0, 0.0),
        tight,
        every_split: goal.pages <= MAX_EXHAUSTIVE_PAGES || !tight,
        used: [0; MAX_SEARCHED_TARGETS],
    };
    run.floor = run.lower_bound(0, 0);
    if run.floor.0 + run.floor.1 == f64::INFINITY {
        return (None, true);
    }
    let laid = if tight { lay_out_bound(&goal, run.work) } else { None };
    if let Some(laid) = laid {
        run.best = Some(laid.cost);
        if goal.pages > MAX_EXHAUSTIVE_PAGES {
            run.floor.1 = run.floor.1.max(laid.least_cost_of_others);
        }
        if run.improves(run.floor) {
            run.sharpen_floor();
        }
        if !run.improves(run.floor) {
            return (run.best, true);
        }
    }
    let floor = run.floor;
    if goal.is_async && goal.replicas > 1 && tight {
        run.minimize_first_replica_then_rest();
    } else {
        run.place(0, 0);
    }
    let proven = run.every_split || !run.improves(floor);
    (run.best, proven && !run.cut)
}

impl Run<'_> {
    /// Places the rest of a replica from page `start` on, then the following replicas.
    fn place(&mut self, replica: usize, start: u32) {
        if start == self.goal.pages {
            if replica + 1 < self.goal.replicas && !self.first_replica_only {
                self.place(replica + 1, 0);
            } else {
                self.keep_if_cheaper();
            }
            return;
        }
        let from = self.work.steps.len();
        if !self.tight {
            return self.place_whole(replica);
        }
        self.collect_steps(replica, start);
        // Steps are tried in the order of their additional cost per page over the lower bound. The sort is stable:
        // among equal steps, the longest piece on the cheapest candidate comes first.
        let (first, then) = self.lower_bound(replica, start);
        let more = |step: &Step| {
            let more = |least: u64, now: f64| ((least as f64 - now).max(0.0) / f64::from(step.pages)) as u64;
            (more(step.least.0, first), more(step.least.1, then))
        };
        self.work.steps[from..].sort_by_key(more);
        for next in from..self.work.steps.len() {
            if self.done {
                break;
            }
            let Step { index, pages, least } = self.work.steps[next];
            if self.improves((least.0 as f64, least.1 as f64)) {
                self.place_piece(replica, start, index, pages);
            }
        }
        self.work.steps.truncate(from);
    }

    /// Places a whole replica in one piece if splits cannot reduce the cost. The cheapest remaining candidate is
    /// usually the best.
    fn place_whole(&mut self, replica: usize) {
        for index in 0..self.work.lists[replica.min(1)].len() {
            let candidate = self.work.lists[replica.min(1)][index];
            let pages = self.goal.pages;
            if self.done
                || self.is_redundant(replica, 0, index)
                || self.count_fitting_pages(&candidate, replica, 0) < pages
            {
                continue;
            }
            self.consider_piece(replica, 0, index, pages);
            if let Some(Step { index, pages, .. }) = self.work.steps.pop() {
                self.place_piece(replica, 0, index, pages);
            }
        }
    }

    /// Collects the next pieces to try in `work.steps`.
    fn collect_steps(&mut self, replica: usize, start: u32) {
        let class = replica.min(1);
        let (rest, long) = (self.goal.pages - start, self.goal.pages > MAX_EXHAUSTIVE_PAGES);
        let last = self.work.current[replica].len() + 1 == self.goal.pieces;
        for index in 0..self.work.lists[class].len() {
            let candidate = self.work.lists[class][index];
            let most = if self.is_redundant(replica, start, index) {
                0
            } else {
                self.count_fitting_pages(&candidate, replica, start)
            };
            let inner = long && !candidate.convex && !candidate.held;
            let whole = candidate.whole && most < self.goal.pages;
            if most == 0 || whole || (most < rest && (last || inner)) {
                continue;
            }
            if last || inner || candidate.whole {
                self.consider_piece(replica, start, index, most);
            } else if long {
                let mut lengths =
                    collect_piece_lengths(self.work, &self.goal, self.budget, &candidate, replica, start, most);
                lengths.extend(self.longest_leaving_room(replica, start, index, most));
                lengths.into_iter().for_each(|pages| self.consider_piece(replica, start, index, pages));
            } else {
                (1..=most).rev().for_each(|pages| self.consider_piece(replica, start, index, pages));
            }
        }
    }

    /// Adds a piece of `pages` pages on a candidate to the steps if it can lead to an improvement.
    fn consider_piece(&mut self, replica: usize, start: u32, index: usize, pages: u32) {
        if self.done || self.is_mirrored(replica, start + pages, index) {
            return;
        }
        self.count += 1;
        let found = self.best.is_some_and(|best| best.then < u64::MAX);
        let steps = if found { self.goal.steps } else { self.goal.steps.saturating_mul(4) };
        self.done = self.count >= steps;
        self.cut |= self.done;
        let cost = self.cost;
        let taken = self.add_piece(replica, start, index, pages);
        let least = self.lower_bound(replica, start + pages);
        self.remove_piece(replica, index, pages, taken);
        self.cost = cost;
        if self.improves(least) {
            let least = (least.0.round() as u64, least.1.round() as u64);
            self.work.steps.push(Step { least, index: index as u16, pages });
        }
    }

    /// Places a piece on a candidate, searches the rest, and removes the piece again.
    fn place_piece(&mut self, replica: usize, start: u32, index: u16, pages: u32) {
        let cost = self.cost;
        let taken = self.add_piece(replica, start, index.into(), pages);
        let excludes = self.work.lists[replica.min(1)][usize::from(index)].excludes;
        self.work.current[replica].push(Placed { candidate: index, start, end: start + pages, excludes });
        self.place(replica, start + pages);
        self.work.current[replica].pop();
        self.remove_piece(replica, index.into(), pages, taken);
        self.cost = cost;
    }
}
