//! A good scheme at once, for the search to beat: the bound's shares, laid out on a line.
//!
//! The bound tells how many pages each target takes in which encoding. Laid one after another on a line that is cut
//! where a replica is full (McNaughton's wrap-around rule), they give few pieces, and as no domain has more pages than a
//! replica, none holds a page twice.

mod apart;
mod line;

use self::apart::{along, apart};
use self::line::{Line, cost, valid};
use super::attempts::build;
use super::candidates::Candidate;
use super::scheme::Cost;
use super::search::{Goal, Placed, Search};

/// A scheme that is in `best`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Laid {
    pub cost: Cost,
    /// The least that the other replicas cost beside this replica 0, where they count apart.
    pub least_then: f64,
}

/// Lays out what is there already, or shares of the bound; None where that fits nowhere.
pub(super) fn lay_out(goal: &Goal, work: &mut Search) -> Option<Laid> {
    let mut best = None;
    if !work.held.is_empty() {
        best = as_it_is(goal, work);
    } else if goal.budget == u64::MAX {
        lay(goal, work, &mut best);
    } else {
        lay_within_budget(goal, work, &mut best);
    }
    work.current.iter_mut().for_each(Vec::clear);
    best
}

/// Lays replica 0 where the bound of all replicas would have it, then the others; None where that is no better than
/// `best`.
pub(super) fn lay_out_along(goal: &Goal, work: &mut Search, best: Cost) -> Option<Cost> {
    let laid = along(goal, work) && valid(goal, work);
    let cost = Some(cost(goal, work)).filter(|cost| laid && *cost < best);
    if cost.is_some() {
        work.best.clone_from(&work.current);
    }
    work.current.iter_mut().for_each(Vec::clear);
    cost
}

/// Lays replica 0 first, then the others; where they count together also all at once. Keeps the best so far; tells
/// whether one of both is a scheme.
fn lay(goal: &Goal, work: &mut Search, best: &mut Option<Laid>) -> bool {
    let mut laid = false;
    for at_once in [false, true] {
        if at_once && (goal.is_async || goal.replicas == 1) {
            continue;
        }
        let least_then = if at_once { together(goal, work).then_some(0.0) } else { apart(goal, work) };
        let Some(least_then) = least_then.filter(|_| valid(goal, work)) else { continue };
        let cost = cost(goal, work);
        laid = true;
        if best.is_none_or(|best| cost < best.cost) {
            *best = Some(Laid { cost, least_then });
            work.best.clone_from(&work.current);
        }
    }
    laid
}

/// Lays at the lowest prices of a byte that keep to the budget: first for replica 0, with the others as dense as can
/// be, then for the others; for all alike where they count together.
fn lay_within_budget(goal: &Goal, work: &mut Search, best: &mut Option<Laid>) {
    let (bounds, joint) = (std::mem::take(&mut work.bounds), std::mem::take(&mut work.joint));
    let prices = std::mem::take(&mut work.byte_prices);
    let last = prices.len() - 1;
    let mut lowest = |indexes: &dyn Fn(usize) -> [usize; 2]| {
        let (mut low, mut high) = (0, last + 1);
        while low < high {
            let middle = (low + high) / 2;
            build(goal, work, indexes(middle).map(|index| prices[index]));
            if lay(goal, work, best) { high = middle } else { low = middle + 1 }
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
    *best = best.map(|laid| Laid { least_then: 0.0, ..laid });
}

/// What is there already, if it is as many replicas: the first piece at each place is of the first replica that has
/// come so far.
fn as_it_is(goal: &Goal, work: &mut Search) -> Option<Laid> {
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
        let (fixed, per_page) = candidate.least();
        let price = fixed + per_page * u64::from(held.end - held.start);
        *(if goal.is_async && replica > 0 { &mut cost.then } else { &mut cost.first }) += price;
        let (candidate, excludes) = (index as u16, candidate.excludes);
        current[replica].push(Placed { candidate, start: held.start, end: held.end, excludes });
        replicas = replicas.max(replica + 1);
    }
    let stays = replicas == goal.replicas && valid(goal, work);
    if stays {
        work.best.clone_from(&work.current);
    }
    stays.then_some(Laid { cost, least_then: 0.0 })
}

/// All replicas at once.
fn together(goal: &Goal, work: &mut Search) -> bool {
    work.current.iter_mut().for_each(Vec::clear);
    work.shares.clear();
    let pages = goal.replicas as u64 * u64::from(goal.pages);
    work.joint.bound.shares(pages, &work.free, &work.domains, &mut work.shares) && Line::default().lay(goal, work, 0)
}
