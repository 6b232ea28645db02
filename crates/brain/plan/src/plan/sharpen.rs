//! The search for the multiplier of the joint bound.

use super::bound::bound_page_price;
use super::goal::Goal;
use super::joint::Joint;
use super::work::Search;

/// The maximum number of bounds that the search for the multiplier computes.
const MAX_MULTIPLIER_TRIES: u32 = 12;

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
