//! What all replicas cost together at least, where replica 0 and the others want the same space.
//!
//! Let a page of replica 0 count `more` less, buy as many pages as all replicas have where they are cheapest, whosever
//! they are, and add `more` for each page of replica 0: no scheme costs less, whatever `more` is. That is sharpest where
//! as many pages are bought for replica 0 as it has (Lagrange's multiplier).

use super::bound::{Bound, price};
use super::candidates::Candidate;
use super::held::Held;
use super::search::{Goal, Search};
use crate::snapshot::MAX_TARGETS;

/// The multiplier is looked for by at most so many bounds.
const TRIES: u32 = 12;

/// The bound of all replicas together.
#[derive(Debug, Default)]
pub(super) struct Joint {
    pub bound: Bound,
    /// How much less a page of replica 0 counts.
    more: f64,
    /// A guess at how much less is enough for replica 0 to be bought first.
    most: f64,
}

impl Joint {
    /// Builds it for the smallest multiplier that may make a difference, where a stored byte costs so much.
    pub fn build(&mut self, goal: &Goal, lists: &[Vec<Candidate>; 2], held: &[Held], byte_price: f64) {
        let (least, most) = dearer(goal, lists);
        self.most = most;
        self.set(goal, lists, held, byte_price, least);
    }

    fn set(&mut self, goal: &Goal, lists: &[Vec<Candidate>; 2], held: &[Held], byte_price: f64, more: f64) {
        self.more = more;
        let classes = [(&*lists[0], more), (&*lists[1], 0.0)];
        self.bound.build(&classes, held, goal.pages, byte_price);
    }

    /// The least that pages of replica 0 and of the others cost; see [`Bound::least`].
    pub fn least(&self, [first, rest]: [u64; 2], free: &[u64], domains: &[u32], bytes: u64) -> f64 {
        self.bound.least(first + rest, free, domains, bytes) + self.more * first as f64
    }
}

/// Finds the multiplier at which the joint bound of the whole is sharpest, or high enough; gives the bound, and leaves it
/// such that pages enough are bought for replica 0.
pub(super) fn sharpen(goal: &Goal, work: &mut Search, enough: f64) -> f64 {
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
        joint.set(goal, lists, held, 0.0, more);
        line(joint)
    };
    let mut high = at(most);
    if high.slope > 0.0 {
        low = high;
        let dearest = lists[0].iter().map(|candidate| price(candidate, goal.pages)).fold(0.0, f64::max);
        high = at(2.0 * dearest + 1.0);
    }
    let mut sharpest = low.least.max(high.least);
    for _ in 0..TRIES {
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
        joint.set(goal, lists, held, 0.0, high.more);
    }
    sharpest
}

/// The bound at a multiplier, and how much it rises with it.
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

    /// Where both are as high.
    fn meets(&self, other: &Line) -> f64 {
        (self.at(0.0) - other.at(0.0)) / (other.slope - self.slope)
    }
}

/// How much more a page of replica 0 costs than one of another at least on the same target, and where that is most on
/// one, each in its cheapest encoding.
fn dearer(goal: &Goal, lists: &[Vec<Candidate>; 2]) -> (f64, f64) {
    let mut cheapest = [[f64::INFINITY; MAX_TARGETS]; 2];
    for (cheapest, list) in cheapest.iter_mut().zip(lists) {
        for candidate in list {
            let least = &mut cheapest[usize::from(candidate.target)];
            *least = least.min(price(candidate, goal.pages));
        }
    }
    let more = cheapest[0].iter().zip(&cheapest[1]).map(|(first, rest)| first - rest);
    let (least, most) = more
        .filter(|more| more.is_finite())
        .fold((f64::INFINITY, 0.0), |(least, most), more| (more.min(least), more.max(most)));
    (if least.is_finite() { least } else { 0.0 }, most)
}
