//! A good initial scheme that the search has to improve on: the shares of the bound, laid out on a line.
//!
//! The bound assigns a number of pages and an encoding to each target. Laid one after another on a line that is cut
//! where a replica is full (McNaughton's wrap-around rule), these shares give few pieces. As no failure domain has more
//! pages than a replica, no domain holds a page twice.

mod apart;
mod line;

use self::apart::{lay_out_along_joint_bound, lay_out_apart};
use self::line::{Line, compute_cost, is_valid};
use super::candidates::Candidate;
use super::goal::{Goal, Placed};
use super::scheme::Cost;
use super::work::{Search, build_bounds};

/// A scheme that was stored in `Search::best`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Laid {
    pub cost: Cost,
    /// The least cost of the other replicas beside this replica 0, if they count separately.
    pub least_cost_of_others: f64,
}

/// Lays out the replicas that are stored already, or the shares of the bound. Returns None if neither gives a valid
/// scheme.
pub(super) fn lay_out_bound(goal: &Goal, work: &mut Search) -> Option<Laid> {
    let mut best = None;
    if !work.held.is_empty() {
        best = keep_present_replicas(goal, work);
    } else if goal.budget == u64::MAX {
        lay_out_shares(goal, work, &mut best);
    } else {
        lay_out_within_budget(goal, work, &mut best);
    }
    work.current.iter_mut().for_each(Vec::clear);
    best
}

/// Lays out replica 0 as the joint bound places it, then the others. Returns None if the result is not cheaper than
/// `best`.
pub(super) fn improve_along_joint_bound(goal: &Goal, work: &mut Search, best: Cost) -> Option<Cost> {
    let laid = lay_out_along_joint_bound(goal, work) && is_valid(goal, work);
    let cost = Some(compute_cost(goal, work)).filter(|cost| laid && *cost < best);
    if cost.is_some() {
        work.best.clone_from(&work.current);
    }
    work.current.iter_mut().for_each(Vec::clear);
    cost
}

/// Lays out replica 0 first, then the others; if all count together, also all at once. Keeps the best scheme so far.
/// Returns whether at least one of the two is valid.
fn lay_out_shares(goal: &Goal, work: &mut Search, best: &mut Option<Laid>) -> bool {
    let mut laid = false;
    for at_once in [false, true] {
        if at_once && (goal.is_async || goal.replicas == 1) {
            continue;
        }
        let least_cost_of_others =
            if at_once { lay_out_together(goal, work).then_some(0.0) } else { lay_out_apart(goal, work) };
        let Some(least_cost_of_others) = least_cost_of_others.filter(|_| is_valid(goal, work)) else { continue };
        let cost = compute_cost(goal, work);
        laid = true;
        if best.is_none_or(|best| cost < best.cost) {
            *best = Some(Laid { cost, least_cost_of_others });
            work.best.clone_from(&work.current);
        }
    }
    laid
}

/// Lays out schemes at the lowest byte prices that respect the budget. If all replicas count together, they share one
/// price. Otherwise the price of replica 0 is found first, with the others as dense as possible, then the price of the
/// others.
fn lay_out_within_budget(goal: &Goal, work: &mut Search, best: &mut Option<Laid>) {
    let (bounds, joint) = (std::mem::take(&mut work.bounds), std::mem::take(&mut work.joint));
    let prices = std::mem::take(&mut work.byte_prices);
    let last = prices.len() - 1;
    let mut lowest = |indexes: &dyn Fn(usize) -> [usize; 2]| {
        let (mut low, mut high) = (0, last + 1);
        while low < high {
            let middle = (low + high) / 2;
            build_bounds(goal, work, indexes(middle).map(|index| prices[index]));
            if lay_out_shares(goal, work, best) { high = middle } else { low = middle + 1 }
        }
        low
    };
    if goal.is_async {
        let first = lowest(&|index| [index, last]);
        if first <= last {
            lowest(&|index| [first, index]);
        }
    } else {
        lowest(&|index| [index; 2]);
    }
    (work.bounds, work.joint, work.byte_prices) = (bounds, joint, prices);
    *best = best.map(|laid| Laid { least_cost_of_others: 0.0, ..laid });
}

/// Lays out the stored pieces if they form as many replicas as wanted. Each piece continues the first replica that ends
/// where the piece begins.
fn keep_present_replicas(goal: &Goal, work: &mut Search) -> Option<Laid> {
    let Search { lists, present, current, .. } = work;
    current.iter_mut().for_each(Vec::clear);
    present.sort_by_key(|held| held.start);
    let (mut cost, mut replicas) = (Cost::default(), 0);
    for held in present.iter() {
        let reached = |pieces: &Vec<Placed>| pieces.last().map_or(0, |piece| piece.end) == held.start;
        let Some(replica) = current[..goal.replicas].iter().position(reached) else { continue };
        let same = |of: &Candidate| (of.target, of.encoding) == (held.target, held.encoding);
        let Some(index) = lists[replica.min(1)].iter().position(same) else { continue };
        let candidate = &lists[replica.min(1)][index];
        let (fixed, per_page) = candidate.least_prices();
        let price = fixed + per_page * u64::from(held.end - held.start);
        *(if goal.is_async && replica > 0 { &mut cost.then } else { &mut cost.first }) += price;
        let (candidate, excludes) = (index as u16, candidate.excludes);
        current[replica].push(Placed { candidate, start: held.start, end: held.end, excludes });
        replicas = replicas.max(replica + 1);
    }
    let stays = replicas == goal.replicas && is_valid(goal, work);
    if stays {
        work.best.clone_from(&work.current);
    }
    stays.then_some(Laid { cost, least_cost_of_others: 0.0 })
}

/// Lays out all replicas at once.
fn lay_out_together(goal: &Goal, work: &mut Search) -> bool {
    work.current.iter_mut().for_each(Vec::clear);
    work.shares.clear();
    let pages = goal.replicas as u64 * u64::from(goal.pages);
    work.joint.bound.shares(pages, &work.free, &work.domains, &mut work.shares)
        && Line::default().lay_out(goal, work, 0)
}
