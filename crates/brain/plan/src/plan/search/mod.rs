//! The search: replica after replica, piece after piece, leaving out what cannot be better than the best found.

mod prune;
mod settle;
mod step;

use super::bound::{Bound, Share};
use super::candidates::Candidate;
use super::held::Held;
use super::joint::Joint;
use super::layout::lay_out;
use super::lengths::lengths;
use super::scheme::Cost;
use crate::policy::Replicas;
use crate::snapshot::MAX_TARGETS;

/// Up to this many pages, every split is tried; above, those at which something becomes full, empty or forbidden.
pub(super) const EVERY_SPLIT: u32 = 16;
/// Above that many pages, a scheme that is cheaper by less than this share is not looked for.
const NEAR: f64 = 0.001;
/// No target.
pub(super) const NONE: u8 = u8::MAX;

/// A piece of a replica, while searching.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// The index into the class's candidates.
    pub candidate: u16,
    pub start: u32,
    pub end: u32,
    pub excludes: u128,
}

/// A piece that may come next, and the least that a scheme with it costs.
#[derive(Clone, Copy, Debug)]
struct Step {
    least: (u64, u64),
    index: u16,
    pages: u32,
}

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub pages: u32,
    pub replicas: usize,
    /// The most pieces of a replica.
    pub pieces: usize,
    /// Only replica 0 counts first.
    pub is_async: bool,
    /// The last replica must outlive a reboot.
    pub last_persistent: bool,
    /// The most bytes to store.
    pub budget: u64,
    /// After so many steps the best found is taken.
    pub steps: u32,
}

/// Buffers and state of the search; used again from plan to plan.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Candidates of replica 0 and of the others, cheapest first.
    pub lists: [Vec<Candidate>; 2],
    pub bounds: [Bound; 2],
    /// The bound of all replicas together.
    pub joint: Joint,
    /// Free bytes of each target.
    pub free: Vec<u64>,
    /// Pages that each domain can still take.
    pub domains: Vec<u32>,
    /// The target before each that is like it in all that matters; [`NONE`] if there is none.
    pub twins: Vec<u8>,
    /// What is stored already, as it came.
    pub present: Vec<Held>,
    /// The same, runs that meet made one.
    pub held: Vec<Held>,
    /// Under a budget: the prices of a stored byte at which something changes, in order.
    pub byte_prices: Vec<f64>,
    /// Fewest bytes that any candidate stores for a page.
    pub densest: u64,
    /// The best scheme so far.
    pub best: Vec<Vec<Placed>>,
    pub current: Vec<Vec<Placed>>,
    steps: Vec<Step>,
    pub shares: Vec<Share>,
}

/// One run of the search.
struct Run<'a> {
    goal: Goal,
    work: &'a mut Search,
    cost: Cost,
    best: Option<Cost>,
    /// Pages of all replicas that are still to be placed.
    left: u64,
    budget: u64,
    count: u32,
    done: bool,
    /// It has come to its last step somewhere.
    cut: bool,
    /// Looks for the cheapest replica 0 only, the others being sure to have room as far as the bound tells.
    alone: bool,
    /// The least that the whole may cost.
    floor: (f64, f64),
    /// Some candidate cannot hold a whole replica, or holds some of it, so that splits may pay.
    tight: bool,
    /// Whatever is another order of the same is tried, too.
    every_split: bool,
    used: [u16; MAX_TARGETS],
}

/// The cost of the cheapest scheme and whether that is proven; None where there is none. The scheme is in `best`.
///
/// Where a write does not wait for the others, replica 0 is settled first: the others are then searched for under one
/// of its cheapest places only.
pub(super) fn search(mut goal: Goal, work: &mut Search) -> (Option<Cost>, bool) {
    work.current.resize_with(usize::from(Replicas::LIMIT), Vec::new);
    work.best.resize_with(usize::from(Replicas::LIMIT), Vec::new);
    work.current.iter_mut().for_each(Vec::clear);
    let splits = |candidate: &Candidate| candidate.tight || candidate.held;
    let tight = goal.budget < u64::MAX || work.lists.iter().flatten().any(splits);
    if goal.pages > EVERY_SPLIT {
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
        alone: false,
        floor: (0.0, 0.0),
        tight,
        every_split: goal.pages <= EVERY_SPLIT || !tight,
        used: [0; MAX_TARGETS],
    };
    run.floor = run.least(0, 0);
    if run.floor.0 + run.floor.1 == f64::INFINITY {
        return (None, true);
    }
    let laid = if tight { lay_out(&goal, run.work) } else { None };
    if let Some(laid) = laid {
        run.best = Some(laid.cost);
        if goal.pages > EVERY_SPLIT {
            run.floor.1 = run.floor.1.max(laid.least_then);
        }
        if run.improves(run.floor) {
            run.sharpen();
        }
        if !run.improves(run.floor) {
            return (run.best, true);
        }
    }
    let floor = run.floor;
    if goal.is_async && goal.replicas > 1 && tight {
        run.alone();
    } else {
        run.place(0, 0);
    }
    let proven = run.every_split || !run.improves(floor);
    (run.best, proven && !run.cut)
}

impl Run<'_> {
    /// Places the rest of a replica from page `start` on, and the replicas after it.
    fn place(&mut self, replica: usize, start: u32) {
        if start == self.goal.pages {
            if replica + 1 < self.goal.replicas && !self.alone {
                self.place(replica + 1, 0);
            } else {
                self.keep();
            }
            return;
        }
        let from = self.work.steps.len();
        if !self.tight {
            return self.place_whole(replica);
        }
        self.collect(replica, start);
        // What costs least more than it must for each page first; of those that are alike the longest piece on the
        // cheapest candidate.
        let (first, then) = self.least(replica, start);
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
                self.enter(replica, start, index, pages);
            }
        }
        self.work.steps.truncate(from);
    }

    /// Places a whole replica, where nothing is to be gained from splits: the cheapest that is left is mostly the best.
    fn place_whole(&mut self, replica: usize) {
        for index in 0..self.work.lists[replica.min(1)].len() {
            let candidate = self.work.lists[replica.min(1)][index];
            let pages = self.goal.pages;
            if self.done || self.pointless(replica, 0, index) || self.room(&candidate, replica, 0) < pages {
                continue;
            }
            self.consider(replica, 0, index, pages);
            if let Some(Step { index, pages, .. }) = self.work.steps.pop() {
                self.enter(replica, 0, index, pages);
            }
        }
    }

    /// The pieces worth trying next.
    fn collect(&mut self, replica: usize, start: u32) {
        let class = replica.min(1);
        let (rest, long) = (self.goal.pages - start, self.goal.pages > EVERY_SPLIT);
        let last = self.work.current[replica].len() + 1 == self.goal.pieces;
        for index in 0..self.work.lists[class].len() {
            let candidate = self.work.lists[class][index];
            let most = if self.pointless(replica, start, index) { 0 } else { self.room(&candidate, replica, start) };
            let inner = long && !candidate.convex && !candidate.held;
            let whole = candidate.whole && most < self.goal.pages;
            if most == 0 || whole || (most < rest && (last || inner)) {
                continue;
            }
            if last || inner || candidate.whole {
                self.consider(replica, start, index, most);
            } else if long {
                let mut lengths = lengths(self.work, &self.goal, self.budget, &candidate, replica, start, most);
                lengths.extend(self.leaving_room(replica, start, index, most));
                lengths.into_iter().for_each(|pages| self.consider(replica, start, index, pages));
            } else {
                (1..=most).rev().for_each(|pages| self.consider(replica, start, index, pages));
            }
        }
    }

    /// Notes a piece of so many pages on a candidate, if that can lead to something better.
    fn consider(&mut self, replica: usize, start: u32, index: usize, pages: u32) {
        if self.done || self.mirrored(replica, start + pages, index) {
            return;
        }
        self.count += 1;
        let found = self.best.is_some_and(|best| best.then < u64::MAX);
        let steps = if found { self.goal.steps } else { self.goal.steps.saturating_mul(4) };
        self.done = self.count >= steps;
        self.cut |= self.done;
        let cost = self.cost;
        let taken = self.put(replica, start, index, pages);
        let least = self.least(replica, start + pages);
        self.take_back(replica, index, pages, taken);
        self.cost = cost;
        if self.improves(least) {
            let least = (least.0.round() as u64, least.1.round() as u64);
            self.work.steps.push(Step { least, index: index as u16, pages });
        }
    }

    /// Puts a piece on a candidate and goes on.
    fn enter(&mut self, replica: usize, start: u32, index: u16, pages: u32) {
        let cost = self.cost;
        let taken = self.put(replica, start, index.into(), pages);
        let excludes = self.work.lists[replica.min(1)][usize::from(index)].excludes;
        self.work.current[replica].push(Placed { candidate: index, start, end: start + pages, excludes });
        self.place(replica, start + pages);
        self.work.current[replica].pop();
        self.take_back(replica, index.into(), pages, taken);
        self.cost = cost;
    }
}
