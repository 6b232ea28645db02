//! A lower bound of the cost of all replicas together, if replica 0 and the others compete for the same space.
//!
//! Subtract `more` from the price of a page of replica 0, buy the pages of all replicas where they are cheapest,
//! regardless of the replica, and add `more` for each page of replica 0. No scheme costs less than the result, whatever
//! `more` is. The bound is sharpest if it buys exactly as many pages for replica 0 as replica 0 has: `more` is a
//! Lagrange multiplier.

use super::bound::{Bound, bound_page_price};
use super::candidates::Candidate;
use super::goal::Goal;
use super::held::Held;
use crate::snapshot::MAX_SEARCHED_TARGETS;

/// The bound of all replicas together.
#[derive(Debug, Default)]
pub(super) struct Joint {
    pub bound: Bound,
    /// The multiplier: the amount subtracted from the price of a page of replica 0.
    pub more: f64,
    /// An estimate of the multiplier at which replica 0 is bought first.
    pub most: f64,
}

impl Joint {
    /// Builds the bound for the smallest multiplier that may make a difference, with a price per stored byte.
    pub fn build(&mut self, goal: &Goal, lists: &[Vec<Candidate>; 2], held: &[Held], byte_price: f64) {
        let (least, most) = extra_costs_of_first_replica(goal, lists);
        self.most = most;
        self.set_multiplier(goal, lists, held, byte_price, least);
    }

    pub fn set_multiplier(
        &mut self,
        goal: &Goal,
        lists: &[Vec<Candidate>; 2],
        held: &[Held],
        byte_price: f64,
        more: f64,
    ) {
        self.more = more;
        let classes = [(&*lists[0], more), (&*lists[1], 0.0)];
        self.bound.build(&classes, held, goal.pages, byte_price);
    }

    /// Returns the least cost of pages of replica 0 and of the others; see [`Bound::least`].
    pub fn least(&self, [first, rest]: [u64; 2], free: &[u64], domains: &[u32], bytes: u64) -> f64 {
        self.bound.least(first + rest, free, domains, bytes) + self.more * first as f64
    }
}

/// Returns the smallest and the largest difference, over all targets, between the price of a page of replica 0 and of
/// another replica, each in its cheapest encoding.
fn extra_costs_of_first_replica(goal: &Goal, lists: &[Vec<Candidate>; 2]) -> (f64, f64) {
    let mut cheapest = [[f64::INFINITY; MAX_SEARCHED_TARGETS]; 2];
    for (cheapest, list) in cheapest.iter_mut().zip(lists) {
        for candidate in list {
            let least = &mut cheapest[usize::from(candidate.target)];
            *least = least.min(bound_page_price(candidate, goal.pages));
        }
    }
    let more = cheapest[0].iter().zip(&cheapest[1]).map(|(first, rest)| first - rest);
    let (least, most) = more
        .filter(|more| more.is_finite())
        .fold((f64::INFINITY, 0.0), |(least, most), more| (more.min(least), more.max(most)));
    (if least.is_finite() { least } else { 0.0 }, most)
}
