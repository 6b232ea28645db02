//! Replica 0 first, then the others on what it leaves.

use super::super::candidates::Candidate;
use super::super::search::{Goal, NONE, Placed, Search};
use super::line::Line;
use crate::snapshot::MAX_TARGETS;

/// Replica 0 where it is cheapest, the others on what that leaves; gives the least that these cost.
pub(super) fn apart(goal: &Goal, work: &mut Search) -> Option<f64> {
    work.current.iter_mut().for_each(Vec::clear);
    work.shares.clear();
    let pages = u64::from(goal.pages);
    let fits = work.bounds[0].shares(pages, &work.free, &work.domains, &mut work.shares);
    if !fits || !Line::default().lay(goal, work, 0) {
        return None;
    }
    let least = least_then(goal, work);
    others(goal, work).then_some(least)
}

/// Replica 0 where the bound of all replicas has it, and what it has not where it is cheapest; the others on what that
/// leaves. Tells whether they have room.
pub(super) fn along(goal: &Goal, work: &mut Search) -> bool {
    let Search { joint, bounds, free, domains, shares, .. } = work;
    let pages = u64::from(goal.pages);
    shares.clear();
    work.current.iter_mut().for_each(Vec::clear);
    if !joint.bound.shares(goal.replicas as u64 * pages, free, domains, shares) {
        return false;
    }
    shares.retain(|share| share.first);
    let mut left = goal.pages;
    for share in shares.iter_mut() {
        share.pages = share.pages.min(left);
        left -= share.pages;
    }
    if left > 0 {
        let (mut free, mut domains) = (free.clone(), domains.clone());
        for share in shares.iter() {
            free[usize::from(share.target)] -= u64::from(share.pages) * u64::from(share.stored);
            domains[usize::from(share.domain)] -= share.pages;
        }
        if !bounds[0].shares(left.into(), &free, &domains, shares) {
            return false;
        }
    }
    Line::default().lay(goal, work, 0) && others(goal, work)
}

/// Lays the others on what replica 0 leaves; tells whether they have room.
fn others(goal: &Goal, work: &mut Search) -> bool {
    let (free, mut domains) = left_by_first(work);
    let domain = |piece: &Placed| work.lists[0][usize::from(piece.candidate)].domain;
    // What continues on the domain that replica 0 ends on comes first on the line, and meets it nowhere.
    let last = work.current[0].last().map(domain);
    for domain in work.current[0].iter().map(domain).filter(|domain| Some(*domain) != last) {
        domains[usize::from(domain)] = 0;
    }
    let later = (goal.replicas as u64 - 1) * u64::from(goal.pages);
    work.shares.clear();
    work.bounds[1].shares(later, &free, &domains, &mut work.shares) && Line::beginning_with(last).lay(goal, work, 1)
}

/// The bytes of each target, and the pages of each domain, that replica 0 leaves.
fn left_by_first(work: &Search) -> (Vec<u64>, Vec<u32>) {
    let (mut free, mut domains) = (work.free.clone(), work.domains.clone());
    for piece in &work.current[0] {
        let candidate = &work.lists[0][usize::from(piece.candidate)];
        free[usize::from(candidate.target)] -= u64::from(candidate.stored) * u64::from(piece.end - piece.start);
        domains[usize::from(candidate.domain)] -= piece.end - piece.start;
    }
    (free, domains)
}

/// The least that the others cost beside this replica 0, or one that is as cheap: of domains among which it may choose,
/// it leaves as many pages, of whichever.
fn least_then(goal: &Goal, work: &Search) -> f64 {
    let (mut free, mut domains) = left_by_first(work);
    let mut one: [u8; MAX_TARGETS] = std::array::from_fn(|domain| domain as u8);
    for piece in &work.current[0] {
        let of = &work.lists[0][usize::from(piece.candidate)];
        let as_cheap = |other: &&Candidate| other.cost(goal.pages) == of.cost(goal.pages);
        for other in work.lists[0].iter().filter(as_cheap).filter(|other| !twins(work, other.target, of.target)) {
            free[usize::from(of.target)] = work.free[usize::from(of.target)];
            let (from, to) = (one[usize::from(other.domain)], one[usize::from(of.domain)]);
            if from != to {
                one.iter_mut().filter(|domain| **domain == from).for_each(|domain| *domain = to);
                domains[usize::from(to)] += domains[usize::from(from)];
            }
        }
    }
    let later = (goal.replicas as u64 - 1) * u64::from(goal.pages);
    work.bounds[1].least_of(later, &free, &domains, goal.budget, |domain| one[usize::from(domain)])
}

/// Whether two targets may change places.
fn twins(work: &Search, a: u8, b: u8) -> bool {
    let mut target = a.max(b);
    while target != NONE && target > a.min(b) {
        target = work.twins[usize::from(target)];
    }
    target == a.min(b)
}
