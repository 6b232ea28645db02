//! The layout of replica 0, then of the others on the space that it leaves.

use super::super::candidates::Candidate;
use super::super::goal::{Goal, NO_TARGET, Placed};
use super::super::work::Search;
use super::line::Line;
use crate::snapshot::MAX_SEARCHED_TARGETS;

/// Lays out replica 0 where it is cheapest, then the others on the remaining space. Returns the least cost of the
/// others.
pub(super) fn lay_out_apart(goal: &Goal, work: &mut Search) -> Option<f64> {
    work.current.iter_mut().for_each(Vec::clear);
    work.shares.clear();
    let pages = u64::from(goal.pages);
    let fits = work.bounds[0].shares(pages, &work.free, &work.domains, &mut work.shares);
    if !fits || !Line::default().lay_out(goal, work, 0) {
        return None;
    }
    let least = least_cost_of_others(goal, work);
    lay_out_others(goal, work).then_some(least)
}

/// Lays out replica 0 as the joint bound places it, pages without a place there where they are cheapest, then the
/// others on the remaining space. Returns whether everything has room.
pub(super) fn lay_out_along_joint_bound(goal: &Goal, work: &mut Search) -> bool {
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
    Line::default().lay_out(goal, work, 0) && lay_out_others(goal, work)
}

/// Lays out the others on the space that replica 0 leaves. Returns whether they have room.
fn lay_out_others(goal: &Goal, work: &mut Search) -> bool {
    let (free, mut domains) = space_left_by_first(work);
    let domain = |piece: &Placed| work.lists[0][usize::from(piece.candidate)].domain;
    // A share on the domain on which replica 0 ends comes first on the line, so that it never holds the same page as
    // replica 0.
    let last = work.current[0].last().map(domain);
    for domain in work.current[0].iter().map(domain).filter(|domain| Some(*domain) != last) {
        domains[usize::from(domain)] = 0;
    }
    let later = (goal.replicas as u64 - 1) * u64::from(goal.pages);
    work.shares.clear();
    work.bounds[1].shares(later, &free, &domains, &mut work.shares) && Line::beginning_with(last).lay_out(goal, work, 1)
}

/// Returns the free bytes of each target, and the pages of each domain, that replica 0 leaves.
fn space_left_by_first(work: &Search) -> (Vec<u64>, Vec<u32>) {
    let (mut free, mut domains) = (work.free.clone(), work.domains.clone());
    for piece in &work.current[0] {
        let candidate = &work.lists[0][usize::from(piece.candidate)];
        free[usize::from(candidate.target)] -= u64::from(candidate.stored) * u64::from(piece.end - piece.start);
        domains[usize::from(candidate.domain)] -= piece.end - piece.start;
    }
    (free, domains)
}

/// Returns the least cost of the others beside this replica 0, or beside one of equal cost. Domains that replica 0
/// could choose among are merged, because replica 0 leaves the same number of pages on them together.
fn least_cost_of_others(goal: &Goal, work: &Search) -> f64 {
    let (mut free, mut domains) = space_left_by_first(work);
    let mut one: [u8; MAX_SEARCHED_TARGETS] = std::array::from_fn(|domain| domain as u8);
    for piece in &work.current[0] {
        let of = &work.lists[0][usize::from(piece.candidate)];
        let as_cheap = |other: &&Candidate| other.cost(goal.pages) == of.cost(goal.pages);
        for other in
            work.lists[0].iter().filter(as_cheap).filter(|other| !are_interchangeable(work, other.target, of.target))
        {
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

/// Returns whether two targets are interchangeable.
fn are_interchangeable(work: &Search, a: u8, b: u8) -> bool {
    let mut target = a.max(b);
    while target != NO_TARGET && target > a.min(b) {
        target = work.twins[usize::from(target)];
    }
    target == a.min(b)
}
