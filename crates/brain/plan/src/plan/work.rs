//! [`Search`]: the buffers and the state of a search.

use super::bound::{Bound, Share};
use super::candidates::Candidate;
use super::goal::{Goal, Placed};
use super::held::Held;
use super::joint::Joint;

/// A possible next piece, and the lower bound of schemes that contain it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub least: (u64, u64),
    pub index: u16,
    pub pages: u32,
}

/// Buffers and state of the search, which are reused from plan to plan.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The candidates of replica 0, and those of the other replicas, cheapest first.
    pub lists: [Vec<Candidate>; 2],
    pub bounds: [Bound; 2],
    /// The bound of all replicas together.
    pub joint: Joint,
    /// Free bytes of each target.
    pub free: Vec<u64>,
    /// The number of pages that each failure domain can still take.
    pub domains: Vec<u32>,
    /// For each target, the preceding interchangeable target; [`NO_TARGET`](super::goal::NO_TARGET) if there is none.
    pub twins: Vec<u8>,
    /// The pieces that are stored already, in the order given.
    pub present: Vec<Held>,
    /// The pieces that are stored already, with adjacent runs merged.
    pub held: Vec<Held>,
    /// Under a budget, the ascending prices of a stored byte at which the preference between encodings changes.
    pub byte_prices: Vec<f64>,
    /// The minimum number of bytes that any candidate stores for a page.
    pub densest: u64,
    /// The best scheme so far.
    pub best: Vec<Vec<Placed>>,
    pub current: Vec<Vec<Placed>>,
    /// The next pieces to try.
    pub steps: Vec<Step>,
    pub shares: Vec<Share>,
}

/// Builds the bounds for the prices of a stored byte in replica 0 and in the others.
pub(super) fn build_bounds(goal: &Goal, work: &mut Search, prices: [f64; 2]) {
    let Search { lists, bounds, joint, held, .. } = work;
    for ((bound, list), price) in bounds.iter_mut().zip(&*lists).zip(prices) {
        bound.build(&[(list, 0.0)], held, goal.pages, price);
    }
    if !goal.is_async && goal.replicas > 1 {
        joint.build(goal, lists, held, prices[1]);
    }
}
