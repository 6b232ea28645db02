//! A lower bound of the cost of all replicas together, if replica 0 and the others compete for the same space.
//!
//! Subtract `more` from the price of a page of replica 0, buy the pages of all replicas where they are cheapest,
//! regardless of the replica, and add `more` for each page of replica 0. No scheme costs less than the result, whatever
//! `more` is. The bound is sharpest if it buys exactly as many pages for replica 0 as replica 0 has: `more` is a
//! Lagrange multiplier.

use super::bound::{Bound, bound_page_price};
use super::candidates::Candidate;
use super::held::Held;
use super::search::{Goal, Search};
use crate::snapshot::MAX_SEARCHED_TARGETS;

/// The maximum number of bounds that the search for the multiplier computes.
const MAX_MULTIPLIER_TRIES: u32 = 12;

/// The bound of all replicas together.
#[derive(Debug, Default)]
pub(super) struct Joint {
    pub bound: Bound,
    /// The multiplier: the amount subtracted from the price of a page of replica 0.
    more: f64,
    /// An estimate of the multiplier at which replica 0 is bought first.
    most: f64,
}

impl Joint {
    /// Builds the bound for the smallest multiplier that may make a difference, with a price per stored byte.
    pub fn build(&mut self, goal: &Goal, lists: &[Vec<Candidate>; 2], held: &[Held], byte_price: f64) {
        let (least, most) = extra_costs_of_first_replica(goal, lists);
        self.most = most;
        self.set_multiplier(goal, lists, held, byte_price, least);
    }

    fn set_multiplier(&mut self, goal: &Goal, lists: &[Vec<Candidate>; 2], held: &[Held], byte_price: f64, more: f64) {
        self.more = more;
        let classes = [(&*lists[0], more), (&*lists[1], 0.0)];
        self.bound.build(&classes, held, goal.pages, byte_price);
    }

    /// Returns the least cost of pages of replica 0 and of the others; see [`Bound::least`].
    pub fn least(&self, [first, rest]: [u64; 2], free: &[u64], domains: &[u32], bytes: u64) -> f64 {
        self.bound.least(first + rest, free, domains, bytes) + self.more * first as f64
    }
}

/// Finds the multiplier at which the joint bound is sharpest, or at least `enough`. Returns the bound, and leaves the
/// multiplier so that enough pages are bought for replica 0.
pub(super) fn sharpen_joint_bound(goal: &Goal, work: &mut Search, enough: f64) -> f64 {
    let Search { lists, joint, free, domains, held, .. } = work;
    let pages = f64::from(goal.pages);
    let all = goal.replicas as u64 * u64::from(goal.pages);
    let line = |joint: &Joint| {
        let (least, first) = joint.bound.least_and_first(all, free, domains);
        Line { more: joint.more, least: least + joint.more * pages, slope: pages - first }
    };
    let most = joint.most;
    let mut low = line(joint);
    if low.slope <= 0.0 || low.least >= enough {
        return low.least;
    }
    let mut at = |more: f64| {
        joint.set_multiplier(goal, lists, held, 0.0, more);
        line(joint)
    };
    let mut high = at(most);
    if high.slope > 0.0 {
        low = high;
        let dearest = lists[0].iter().map(|candidate| bound_page_price(candidate, goal.pages)).fold(0.0, f64::max);
        high = at(2.0 * dearest + 1.0);
    }
    let mut sharpest = low.least.max(high.least);
    for _ in 0..MAX_MULTIPLIER_TRIES {
        if sharpest >= enough || high.slope >= 0.0 {
            break;
        }
        let next = at(low.meets(&high));
        sharpest = sharpest.max(next.least);
        let done = next.least >= low.at(next.more) * (1.0 - 1e-9);
        *(if next.slope > 0.0 { &mut low } else { &mut high }) = next;
        if done {
            break;
        }
    }
    if joint.more != high.more {
        joint.set_multiplier(goal, lists, held, 0.0, high.more);
    }
    sharpest
}

/// The value of the bound at a multiplier, and its slope there.
#[derive(Clone, Copy)]
struct Line {
    more: f64,
    least: f64,
    slope: f64,
}

impl Line {
    fn at(&self, more: f64) -> f64 {
        self.least + self.slope * (more - self.more)
    }

    /// Returns the multiplier at which two lines meet.
    fn meets(&self, other: &Line) -> f64 {
        (self.at(0.0) - other.at(0.0)) / (other.slope - self.slope)
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
