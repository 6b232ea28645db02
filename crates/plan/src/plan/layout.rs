//! A good scheme at once, for the search to beat: the bound's shares, laid out on a line.
//!
//! The bound tells how many pages each target takes in which encoding. Laid one after another on a line that is cut
//! where a replica is full (McNaughton's wrap-around rule), they give few pieces, and as no domain has more pages than a
//! replica, none holds a page twice.

use super::attempts::build;
use super::candidates::Candidate;
use super::scheme::Cost;
use super::search::{Goal, NONE, Placed, Search};

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
    let (prices, first_more) = (std::mem::take(&mut work.byte_prices), work.first_more);
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
    (work.bounds, work.joint, work.byte_prices, work.first_more) = (bounds, joint, prices, first_more);
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

/// Replica 0 where it is cheapest, the others on what that leaves; gives the least that these cost.
fn apart(goal: &Goal, work: &mut Search) -> Option<f64> {
    let mut line = Line::default();
    work.current.iter_mut().for_each(Vec::clear);
    work.shares.clear();
    let pages = u64::from(goal.pages);
    if !work.bounds[0].shares(pages, &work.free, &work.domains, &mut work.shares) || !line.lay(goal, work, 0) {
        return None;
    }
    let (mut free, mut domains) = (work.free.clone(), work.domains.clone());
    let last = work.current[0].last().map(|piece| work.lists[0][usize::from(piece.candidate)].domain);
    for piece in &work.current[0] {
        let candidate = &work.lists[0][usize::from(piece.candidate)];
        let (target, domain) = (usize::from(candidate.target), usize::from(candidate.domain));
        free[target] -= u64::from(candidate.stored) * u64::from(piece.end - piece.start);
        domains[domain] -= piece.end - piece.start;
    }
    let later = (goal.replicas as u64 - 1) * pages;
    let least = work.bounds[1].least(later, &free, &domains, goal.budget);
    // What continues on the domain that replica 0 ends on comes first on the line, and meets it nowhere.
    for piece in &work.current[0] {
        let domain = work.lists[0][usize::from(piece.candidate)].domain;
        if Some(domain) != last {
            domains[usize::from(domain)] = 0;
        }
    }
    work.shares.clear();
    line.first = last;
    let fits = work.bounds[1].shares(later, &free, &domains, &mut work.shares) && line.lay(goal, work, 1);
    fits.then_some(if tied(goal, work) { 0.0 } else { least })
}

/// Whether replica 0 may be as cheap elsewhere, on a target that is not a twin, so that the others may fare better.
fn tied(goal: &Goal, work: &Search) -> bool {
    let twin = |a: u8, b: u8| {
        let mut target = a.max(b);
        while target != NONE && target > a.min(b) {
            target = work.twins[usize::from(target)];
        }
        target == a.min(b)
    };
    let tied = |piece: &Placed| {
        let of = &work.lists[0][usize::from(piece.candidate)];
        let as_cheap = |other: &&Candidate| other.cost(goal.pages) == of.cost(goal.pages);
        work.lists[0].iter().filter(as_cheap).any(|other| !twin(other.target, of.target))
    };
    work.current[0].iter().any(tied)
}

/// All replicas at once.
fn together(goal: &Goal, work: &mut Search) -> bool {
    work.current.iter_mut().for_each(Vec::clear);
    work.shares.clear();
    let pages = goal.replicas as u64 * u64::from(goal.pages);
    work.joint.shares(pages, &work.free, &work.domains, &mut work.shares) && Line::default().lay(goal, work, 0)
}

/// Where the line has come to.
#[derive(Default)]
struct Line {
    replica: usize,
    page: u32,
    /// The domain that comes first.
    first: Option<u8>,
}

impl Line {
    /// Lays the shares one after another, from the start of a replica on; those that do not outlive a reboot first, so
    /// that the last replica does.
    fn lay(&mut self, goal: &Goal, work: &mut Search, replica: usize) -> bool {
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

/// Whether what is laid out is a scheme.
fn valid(goal: &Goal, work: &Search) -> bool {
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

fn cost(goal: &Goal, work: &Search) -> Cost {
    let mut cost = Cost::default();
    for (replica, pieces) in work.current[..goal.replicas].iter().enumerate() {
        for piece in pieces {
            let price = work.lists[replica.min(1)][usize::from(piece.candidate)].cost(piece.end - piece.start);
            *(if goal.is_async && replica > 0 { &mut cost.then } else { &mut cost.first }) += price;
        }
    }
    cost
}
