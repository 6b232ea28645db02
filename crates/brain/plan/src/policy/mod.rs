//! The translation of a user's requirements to the planner's policy (HReplica IV-B.2, Table III).

mod ask;
mod field;
mod requirement;
mod resolution;
mod resolve;

pub use ask::{Ask, Budget, Level, Replicas};
pub use field::Field;
pub use requirement::{Asked, Requirement, Value};
pub use resolution::{Resolution, Source};
pub use resolve::{resolve, resolve_levels};

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::sets::TierSet;
use terrace_cost::{CostModel, Model, NotUnderstood, Weights, energy, measured, paper};

/// The acknowledgement that a write waits for; each level includes the preceding ones. The paper's r_m is ASYNC for the
/// first and SYNC for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ack {
    /// Replica 0 is written; the others are pending.
    #[default]
    Placed,
    /// All replicas are written.
    Replicated,
    /// All replicas are on persistent targets and synced.
    Durable,
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ack::Placed => "placed",
            Ack::Replicated => "replicated",
            Ack::Durable => "durable",
        })
    }
}

impl FromStr for Ack {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Ack, NotUnderstood> {
        match text.trim() {
            "placed" => Ok(Ack::Placed),
            "replicated" => Ok(Ack::Replicated),
            "durable" => Ok(Ack::Durable),
            _ => Err(NotUnderstood::new(text, "acknowledgement", "placed, replicated or durable")),
        }
    }
}

/// The planner's objectives and constraints: the paper's metrics r_n, r_m, w_c, w_d and w_r, and flags.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The wanted number of replicas (r_n); under a budget, the maximum.
    pub replicas: u8,
    /// The number of replicas that a plan keeps even if the budget does not suffice.
    pub least: u8,
    /// The acknowledgement that a write waits for (r_m).
    pub ack: Ack,
    /// The weights of replica 0, which serves the reads unless all do.
    pub first: Weights,
    /// The weights of the other replicas.
    pub rest: Weights,
    /// Store replica 0 unencoded if there is room, so that any part of it can be read without decoding more.
    pub raw_first: bool,
    /// Measure costs in joules instead of seconds.
    pub energy: bool,
    /// Increase a target's cost by its load.
    pub spread: bool,
    /// Place the replicas of a page on distinct tiers if there are enough. All of them serve reads.
    pub distinct_tiers: bool,
    /// Drop `tiers` and `max_latency` if a write would fail otherwise.
    pub any_target: bool,
    /// All replicas may be on volatile tiers; otherwise the last one has to be on a persistent tier.
    pub volatile: bool,
    /// No replica may be on a volatile tier, regardless of the acknowledgement.
    pub persistent: bool,
    /// The maximum number of stored bytes per byte of the request, over all replicas.
    pub budget: Option<Budget>,
    /// The maximum latency of a target that holds replica 0, in seconds.
    pub max_latency: Option<f64>,
    /// The tiers that may be used.
    pub tiers: TierSet,
    /// The cost model.
    pub model: Model,
}

impl Policy {
    /// Returns whether only replica 0 counts towards a write's duration (r_m = ASYNC).
    pub fn is_async(&self) -> bool {
        self.ack == Ack::Placed
    }

    /// Returns whether all replicas have to be on persistent tiers.
    pub fn is_all_persistent(&self) -> bool {
        self.persistent || self.ack == Ack::Durable
    }

    /// Returns the weights of a replica, and how often it is expected to be read if its bytes are read `reads` times. Replica 0 serves the
    /// reads, but those that are on distinct tiers for the sake of bandwidth all serve them, at the same time.
    pub fn weights_and_reads(&self, is_first: bool, reads: f64) -> (Weights, f64) {
        match is_first {
            true => (self.first, reads),
            false => (self.rest, if self.distinct_tiers { reads } else { 0.0 }),
        }
    }

    /// Returns the cost model that prices replicas.
    pub fn cost_model(&self) -> CostModel {
        match self.model {
            _ if self.energy => energy,
            Model::Measured => measured,
            Model::Paper => paper,
        }
    }
}

impl Default for Policy {
    /// Returns the paper's policy: three replicas, asynchronous, equal weights.
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
