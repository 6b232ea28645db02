//! The prices of every target and encoding, cached across requests.

use smallvec::SmallVec;

use super::held::Held;
use crate::mix::mix;
use crate::policy::Policy;
use crate::snapshot::{PAGE_BYTES, Snapshot};
use terrace_cost::{Costs, EncodingRates, TargetRates, Weights, Work};

/// An encoding on a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub encoding: u8,
    /// Stored bytes per page.
    pub stored: u32,
    /// The cost per page.
    pub per_page: u64,
    /// The offer is on the lower convex hull: no mix of two others is both as cheap and as dense.
    pub convex: bool,
}

/// The offers of a target to a class of replicas: replica 0, or the others.
#[derive(Debug, Default)]
pub(super) struct TargetOffers {
    /// The cost of a piece regardless of its length and encoding.
    pub fixed: u64,
    /// The offer without an encoding.
    pub raw: Option<Offer>,
    /// The Pareto front of cost and density, cheapest first, and the encodings of pieces that are stored already.
    pub front: SmallVec<[Offer; 8]>,
}

/// Everything that offers depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OffersKey {
    pub snapshot: u64,
    pub costs: u64,
    pub present: u64,
    pub reads: f64,
    pub policy: Policy,
}

impl OffersKey {
    pub fn hash(&self) -> u64 {
        let Policy { replicas, least, ack, first, rest, volatile, persistent, budget, tiers, .. } = &self.policy;
        let weights = [first.compress, first.ratio, rest.compress, rest.ratio, budget.map_or(0.0, |budget| budget.0)];
        let few =
            u64::from_le_bytes([*replicas, *least, *ack as u8, u8::from(*volatile), u8::from(*persistent), 0, 0, 0]);
        let policy = weights.into_iter().map(f64::to_bits).fold(mix(few, tiers.bits()), mix);
        [self.snapshot, self.costs, self.present, self.reads.to_bits()].into_iter().fold(policy, mix)
    }
}

/// The offers of all targets to both classes.
#[derive(Debug, Default)]
pub(super) struct Offers {
    key: Option<OffersKey>,
    pub classes: [Vec<TargetOffers>; 2],
}

/// A cache of recent offers with a fixed size.
#[derive(Debug)]
pub(super) struct OfferTable(Vec<Offers>);

impl Default for OfferTable {
    fn default() -> Self {
        OfferTable((0..16).map(|_| Offers::default()).collect())
    }
}

impl OfferTable {
    pub fn get(&mut self, key: &OffersKey, snapshot: &Snapshot, costs: &Costs, held: &[Held]) -> &Offers {
        let index = key.hash() as usize & (self.0.len() - 1);
        let offers = &mut self.0[index];
        if offers.key != Some(*key) {
            offers.key = Some(*key);
            for (class, is_first) in offers.classes.iter_mut().zip([true, false]) {
                fill_offers(class, key, is_first, snapshot, costs, held);
            }
        }
        offers
    }
}

fn fill_offers(
    class: &mut Vec<TargetOffers>,
    key: &OffersKey,
    is_first: bool,
    snapshot: &Snapshot,
    costs: &Costs,
    held: &[Held],
) {
    let (weights, reads) = key.policy.weights_and_reads(is_first, key.reads);
    class.resize_with(snapshot.targets().len(), TargetOffers::default);
    for (target, (offers, rates)) in (0u8..).zip(class.iter_mut().zip(snapshot.rates())) {
        let rates = &if key.policy.spread { compute_rates_under_load(rates) } else { *rates };
        let offer = |encoding: u8, of: &EncodingRates| {
            let (fixed, per_page) = price_encoding(&key.policy, rates, of, &weights, reads);
            (fixed, Offer { encoding, stored: of.page, per_page, convex: true })
        };
        let all = || (0..=u8::MAX).zip(costs.rates()).map(|(encoding, of)| offer(encoding, of));
        offers.raw = all().next().map(|(_, raw)| raw);
        offers.fixed = all().map(|(fixed, _)| fixed).next().unwrap_or(0);
        offers.front.clear();
        let allowed = |offer: &Offer| costs.pinned().is_none_or(|only| usize::from(offer.encoding) == only);
        offers.front.extend(all().map(|(_, offer)| offer).filter(allowed));
        offers.front.sort_unstable_by_key(|offer| (offer.per_page, offer.stored, offer.encoding));
        let mut densest = u32::MAX;
        offers.front.retain(|offer| {
            let here = held.iter().any(|held| (held.target, held.encoding) == (target, offer.encoding));
            let denser = offer.stored < densest;
            densest = densest.min(offer.stored);
            denser || here
        });
        mark_convex(&mut offers.front);
    }
}

/// Marks the offers on the lower convex hull. `front` is sorted by cost.
fn mark_convex(front: &mut [Offer]) {
    let slope = |a: &Offer, b: &Offer| {
        let saved = f64::from(a.stored) - f64::from(b.stored);
        if saved > 0.0 { (b.per_page as f64 - a.per_page as f64) / saved } else { f64::INFINITY }
    };
    let mut last = 0;
    for next in 1..front.len() {
        let best = (last + 1..front.len())
            .min_by(|a, b| slope(&front[last], &front[*a]).total_cmp(&slope(&front[last], &front[*b])));
        if next <= last {
            continue;
        }
        front[next].convex = best == Some(next);
        if front[next].convex {
            last = next;
        }
    }
}

/// Returns the fixed cost of a piece and the cost per page, in whole picoseconds or picojoules.
pub(crate) fn price_encoding(
    policy: &Policy,
    rates: &TargetRates,
    encoding: &EncodingRates,
    weights: &Weights,
    reads: f64,
) -> (u64, u64) {
    let cost = policy.cost_model()(rates, &encoding.expected, weights, reads);
    ((cost.fixed * 1e12).round() as u64, (cost.per_byte * PAGE_BYTES as f64 * 1e12).round() as u64)
}

/// Returns the rates of a target that processes its queue first.
pub(crate) fn compute_rates_under_load(rates: &TargetRates) -> TargetRates {
    let factor = 1.0 + rates.load;
    let Work { read, write, latency } = rates.work;
    let work = Work { read: read * factor, write: write * factor, latency: latency * factor };
    TargetRates {
        read: rates.read * factor,
        write: rates.write * factor,
        latency: rates.latency * factor,
        work,
        ..*rates
    }
}
