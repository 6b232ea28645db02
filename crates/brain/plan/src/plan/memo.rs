//! [`Memo`]: plans that were made already.

use super::offers::{OfferTable, OffersKey};
use super::search::Search;
use super::{Piece, Plan, Want, held};
use crate::mix::mix;
use crate::policy::Policy;
use crate::snapshot::{PAGE, Snapshot, TargetSet};
use terrace_cost::{Costs, down, nearest};

/// All that a plan depends on, but for the choice between targets that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key {
    pub pages: u32,
    pub offers: OffersKey,
    /// A hash of the space of the targets that could not hold the request raw; that of the others makes no difference.
    space: u64,
    /// The targets above the policy's latency.
    slow: u64,
    /// Those that may be used.
    pub targets: TargetSet,
}

impl Key {
    pub fn new(want: &Want, present: &[Piece], snapshot: &Snapshot, policy: &Policy, costs: &Costs) -> Key {
        let pages = want.pages();
        let enough = u64::from(pages) * PAGE;
        let (mut space, mut slow) = (0, 0);
        for (index, target) in snapshot.targets().iter().enumerate() {
            let free = target.free.saturating_sub(target.reserved);
            if free < enough && want.targets.has(index) {
                space = mix(mix(space, index as u64), down(free));
            }
            slow |= u64::from(policy.max_latency.is_some_and(|most| target.latency > most)) << index;
        }
        let offers = OffersKey {
            snapshot: snapshot.fingerprint(policy.spread),
            costs: costs.fingerprint(),
            present: held::hash(present),
            reads: nearest(want.reads),
            policy: *policy,
        };
        Key { pages, offers, space, slow, targets: want.targets }
    }

    fn hash(&self) -> u64 {
        [self.pages.into(), self.space, self.slow, self.targets.bits()].into_iter().fold(self.offers.hash(), mix)
    }
}

/// Plans that were made already, in a table that does not grow, and the planner's buffers. One for each thread.
#[derive(Debug)]
pub struct Memo {
    plans: Vec<(Option<Key>, Plan)>,
    enabled: bool,
    pub(super) search: Search,
    pub(super) offers: OfferTable,
    pub(super) steps: u32,
    /// Requests whose plan was there.
    pub hits: u64,
    /// Requests whose plan had to be made.
    pub misses: u64,
}

impl Memo {
    /// Room for at least `plans` plans, of about half a KiB each; 0 keeps none.
    pub fn new(plans: usize) -> Memo {
        Memo {
            plans: vec![(None, Plan::default()); plans.next_power_of_two()],
            enabled: plans > 0,
            search: Search::default(),
            offers: OfferTable::default(),
            steps: 20_000,
            hits: 0,
            misses: 0,
        }
    }

    /// Cuts a plan's search short after so many steps (20,000 unless told; of a request above 16 pages after a
    /// hundredth of that; a step takes 100 to 200 ns). The plan may then say that it is not proven. The first scheme is
    /// looked for four times as long.
    pub fn with_steps(self, steps: u32) -> Memo {
        Memo { steps: steps.max(1), ..self }
    }

    /// The share of requests whose plan was there.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    /// The plan of this key, made by `make` if it is not there.
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
