//! [`Memo`]: a cache of plans.

use super::offers::{OfferTable, OffersKey};
use super::work::Search;
use super::{Piece, Plan, Want, held};
use crate::mix::mix;
use crate::policy::Policy;
use crate::snapshot::{MAX_SEARCHED_TARGETS, PAGE_BYTES, Snapshot};
use terrace_cost::{Costs, down, nearest};

/// Everything that a plan depends on, except for the choice between interchangeable targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key {
    pub pages: u32,
    pub offers: OffersKey,
    /// A hash of the free space of the targets that could not hold the raw request. The free space of the other targets
    /// makes no difference.
    space: u64,
    /// A hash of the targets whose latency is above the policy's limit.
    slow: u64,
    /// The targets that may be used, as [`TargetSet::bits`](crate::snapshot::TargetSet).
    targets: u64,
}

impl Key {
    pub fn new(want: &Want, present: &[Piece], snapshot: &Snapshot, policy: &Policy, costs: &Costs) -> Key {
        let pages = want.pages();
        let enough = u64::from(pages) * PAGE_BYTES;
        let (mut space, mut slow) = (0, 0);
        for (index, target) in snapshot.targets().iter().enumerate() {
            let free = target.free.saturating_sub(target.reserved);
            if free < enough && want.targets.has(index) {
                space = mix(mix(space, index as u64), down(free));
            }
            if policy.max_latency.is_some_and(|most| target.latency > most) {
                slow = mix(slow, index as u64);
            }
        }
        let offers = OffersKey {
            snapshot: snapshot.fingerprint(policy.spread),
            costs: costs.fingerprint(),
            present: held::hash_pieces(present),
            reads: nearest(want.reads),
            policy: *policy,
        };
        Key { pages, offers, space, slow, targets: want.targets.bits() }
    }

    fn hash(&self) -> u64 {
        [self.pages.into(), self.space, self.slow, self.targets].into_iter().fold(self.offers.hash(), mix)
    }
}

/// A cache of plans with a fixed size, and the planner's buffers. Each thread needs its own.
#[derive(Debug)]
pub struct Memo {
    plans: Vec<(Option<Key>, Plan)>,
    enabled: bool,
    pub(super) search: Search,
    pub(super) offers: OfferTable,
    pub(super) steps: u32,
    /// The maximum number of targets that a search considers.
    pub(super) targets: usize,
    /// The number of cache hits.
    pub hits: u64,
    /// The number of cache misses.
    pub misses: u64,
}

impl Memo {
    /// Creates a cache for at least `plans` plans of about half a KiB each; 0 disables caching.
    pub fn new(plans: usize) -> Memo {
        Memo {
            plans: vec![(None, Plan::default()); plans.next_power_of_two()],
            enabled: plans > 0,
            search: Search::default(),
            offers: OfferTable::default(),
            steps: 20_000,
            targets: MAX_SEARCHED_TARGETS,
            hits: 0,
            misses: 0,
        }
    }

    /// Limits the search for a plan to `steps` steps (20,000 by default). A step takes 100 to 200 ns. A request of more
    /// than 16 pages gets a hundredth of the limit. Until the search has found a first scheme, the limit is four times
    /// as high. A plan whose search reached the limit may have
    /// `proven` false: it is not known to be the cheapest.
    pub fn with_steps(self, steps: u32) -> Memo {
        Memo { steps: steps.max(1), ..self }
    }

    /// Limits each search to `targets` targets (64 by default, and at most). If a snapshot has more, the search considers
    /// some of each class of alike targets. Nothing cheaper is missed while the limit leaves room for as many of each
    /// class as there are replicas; see [`Plan::proven`].
    pub fn with_targets(self, targets: usize) -> Memo {
        Memo { targets: targets.clamp(1, MAX_SEARCHED_TARGETS), ..self }
    }

    /// Returns the share of requests that were cache hits.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    /// Returns the plan of a key; calls `make` on a cache miss.
    pub(super) fn get(&mut self, key: Key, make: impl FnOnce(&mut Self, &mut Plan)) -> &mut Plan {
        let index = key.hash() as usize & (self.plans.len() - 1);
        if self.enabled && self.plans[index].0 == Some(key) {
            self.hits += 1;
        } else {
            self.misses += 1;
            let mut plan = std::mem::take(&mut self.plans[index].1);
            make(self, &mut plan);
            self.plans[index] = (Some(key), plan);
        }
        &mut self.plans[index].1
    }
}

impl Default for Memo {
    fn default() -> Self {
        Memo::new(1024)
    }
}
