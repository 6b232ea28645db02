//! Decides where replicas go and how they are encoded: calls `terrace-plan` with the costs that `terrace-predict` expects
//! for the bytes, and with the current state of the store's tiers.

mod budget;
mod extent_plan;
mod kept;
mod lessons;
mod memory;
mod options;
mod placer;
mod planner;
mod policy;

pub(crate) use extent_plan::{ReplicaPlan, ReplicaPlans};
pub(crate) use kept::KeptOptions;
pub(crate) use lessons::Lessons;
pub use options::{PutOptions, element_of};
pub(crate) use placer::Placer;
pub use planner::Planned;
pub(crate) use planner::{PlanRequest, Planner, describe_tiers, snapshot_of};
pub(crate) use policy::WritePolicy;

use std::sync::Arc;

use terrace_codec::{Element, Encoding};
use terrace_cost::Expected;
use terrace_plan::policy::Policy;
use xxhash_rust::xxh3::xxh3_64;

use crate::arrivals::{Arrival, Arrivals};
use crate::devices::{Device, Tiers};
use crate::home::Rules;
use crate::hotness::Hotness;

/// The assumed cost of an encoding whose speed is unknown.
pub(crate) const UNKNOWN_ENCODING_COST: Expected = Expected::from_speeds(3e8, 1e9, 1.0);
/// The lowest number of times that written bytes are expected to be read.
pub(crate) const MIN_EXPECTED_READS: f64 = 1.0;

/// Plans the replicas of written bytes, from the current rules, the current state of the tiers, and what was learned about
/// streams.
pub(crate) struct Planning {
    pub rules: Rules,
    pub tiers: Arc<Tiers>,
    pub hotness: Arc<Hotness>,
    /// The replicas on targets above the last tier.
    pub arrivals: Arrivals,
    /// The lessons learned from streams of bytes.
    pub lessons: Arc<Lessons>,
    pub planner: Planner,
    /// The options that objects keep.
    pub kept: KeptOptions,
}

impl Planning {
    /// Returns a placer for bytes of `key`. `element` is the type of their elements, if known.
    pub fn placer<'a>(&'a self, key: &'a [u8], element: Option<Element>, wanted: Policy) -> Placer<'a> {
        let pinned = self.pinned(key);
        let wanted = Policy { raw_first: wanted.raw_first && pinned.is_none(), ..wanted };
        Placer { planning: self, key, wanted, stream: self.lessons.of(key, element), key_hash: xxh3_64(key), pinned }
    }

    /// Notes that a target has a replica of an object's extent, so that it may be evicted. Replicas on the last tier are never
    /// evicted.
    fn note_arrival(&self, device: &Device, key: &[u8], offset: u64) {
        if device.tier + 1 < self.tiers.tiers.len() {
            self.arrivals.add(device.id, Arrival { key: key.to_vec(), offset });
        }
    }

    /// Returns the encoding that the rule for a key names.
    pub fn pinned(&self, key: &[u8]) -> Option<Encoding> {
        self.rules.now().rule_for(key).and_then(|rule| rule.encoding.as_deref().copied())
    }
}
