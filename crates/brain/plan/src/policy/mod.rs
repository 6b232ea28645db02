//! From what a user asks for to what the planner works with (HReplica IV-B.2, Table III).

mod ask;
mod requirement;
mod resolution;
mod resolve;

pub use ask::{Ask, Budget, Level, Replicas};
pub use requirement::{Asked, Requirement, Value};
pub use resolution::{Field, Resolution, Source};
pub use resolve::{resolve, resolve_levels};

use serde::{Deserialize, Serialize};

use crate::snapshot::TierSet;
use terrace_cost::{CostModel, Model, Weights, energy, measured, paper};

/// When a write returns; each level includes those before it. The paper's r_m is ASYNC for the first, SYNC for the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// Replica 0 is written, the others are owed.
    #[default]
    Placed,
    /// All replicas are written.
    Replicated,
    /// All replicas are on persistent targets, and synced.
    Durable,
}

/// What the planner is held to: the paper's metrics r_n, r_m, w_c, w_d and w_r, flags and constraints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// How many replicas are wanted (r_n). Under a budget: the most.
    pub replicas: u8,
    /// How many replicas the budget may not cost.
    pub least: u8,
    /// When a write returns (r_m).
    pub ack: Ack,
    /// The weights of replica 0, the one that reads go to.
    pub first: Weights,
    /// The weights of the other replicas.
    pub rest: Weights,
    /// Replica 0 is stored as it is, if there is room, so that any part of it is read without decoding more.
    pub raw_first: bool,
    /// Costs are joules instead of seconds.
    pub energy: bool,
    /// A target's load makes it dearer.
    pub spread: bool,
    /// Replicas of a page lie on distinct tiers, if there are that many.
    pub distinct_tiers: bool,
    /// `tiers` and `max_latency` give way rather than that a write fails.
    pub any_target: bool,
    /// All replicas may lie on tiers that do not outlive a reboot; otherwise the last one may not.
    pub volatile: bool,
    /// No replica lies on a tier that does not outlive a reboot, whenever a write returns.
    pub persistent: bool,
    /// The most bytes stored per byte given, over all replicas.
    pub budget: Option<Budget>,
    /// The highest latency, in seconds, of a target that holds replica 0.
    pub max_latency: Option<f64>,
    /// The only tiers to use.
    pub tiers: TierSet,
    /// How costs are estimated.
    pub model: Model,
}

impl Policy {
    /// Whether only replica 0 counts towards a write's duration (r_m = ASYNC).
    pub fn is_async(&self) -> bool {
        self.ack == Ack::Placed
    }

    /// Whether all replicas lie on tiers that outlive a reboot.
    pub fn is_all_persistent(&self) -> bool {
        self.persistent || self.ack == Ack::Durable
    }

    /// The model by which replicas are priced.
    pub fn cost_model(&self) -> CostModel {
        match self.model {
            _ if self.energy => energy,
            Model::Measured => measured,
            Model::Paper => paper,
        }
    }
}

impl Default for Policy {
    /// The paper's: three replicas, asynchronous, equal weights.
    fn default() -> Policy {
        Policy {
            replicas: 3,
            least: 1,
            ack: Ack::Placed,
            first: Weights::EQUAL,
            rest: Weights::EQUAL,
            raw_first: false,
            energy: false,
            spread: false,
            distinct_tiers: false,
            any_target: false,
            volatile: false,
            persistent: false,
            budget: None,
            max_latency: None,
            tiers: TierSet::ALL,
            model: Model::Measured,
        }
    }
}
