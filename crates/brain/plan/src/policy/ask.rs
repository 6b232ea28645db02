//! [`Ask`]: the requirements of one level.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Ack, Asked};
use crate::sets::TierSet;
use terrace_cost::{NotUnderstood, Weights};

/// The level at which something is asked for. An earlier level overrides a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// One request.
    Operation,
    /// The requests of an application, or the keys that a rule names.
    Application,
    /// The whole store.
    System,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Operation => "operation",
            Level::Application => "application",
            Level::System => "system",
        })
    }
}

/// The range and the default of the number of replicas (the paper's MIN, MAX and DEFAULT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replicas {
    /// The minimum; at least 1.
    pub min: u8,
    /// The maximum; at most [`Replicas::MAX_COUNT`].
    pub max: u8,
    /// The number if no level asks for one.
    pub default: u8,
}

impl Replicas {
    /// The planner never plans more replicas than this.
    pub const MAX_COUNT: u8 = 16;
}

impl Default for Replicas {
    fn default() -> Self {
        Replicas { min: 1, max: 5, default: 3 }
    }
}

/// The maximum number of stored bytes per byte of the request, over all replicas; written as `3x`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Budget(pub f64);

impl FromStr for Budget {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Budget, NotUnderstood> {
        let factor = text.trim().strip_suffix('x').and_then(|number| number.trim().parse::<f64>().ok());
        let budget = factor.filter(|factor| factor.is_finite() && *factor > 0.0).map(Budget);
        budget.ok_or_else(|| NotUnderstood::new(text, "budget", "\"3x\" for three bytes stored per byte"))
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.0)
    }
}

/// The requirements of one level. A field without a value leaves the decision to the levels below.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The requirements; of two that conflict, the first one applies.
    pub requirements: Vec<Asked>,
    /// The number of replicas. This field and the next two override the requirements of this level.
    pub replicas: Option<u8>,
    /// The acknowledgement that a write waits for.
    pub ack: Option<Ack>,
    /// The weights of all replicas.
    pub weights: Option<Weights>,
    /// The maximum number of stored bytes per byte of the request.
    pub budget: Option<Budget>,
    /// The maximum latency of a target that holds replica 0, in seconds.
    pub max_latency: Option<f64>,
    /// The tiers that may be used.
    pub tiers: Option<TierSet>,
    /// Whether all replicas may be on volatile tiers.
    pub volatile: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_written_as_factors() {
        assert_eq!("3x".parse(), Ok(Budget(3.0)));
        assert_eq!(" 1.5x ".parse(), Ok(Budget(1.5)));
        assert_eq!([Budget(3.0), Budget(1.5)].map(|budget| budget.to_string()), ["3x", "1.5x"]);
        for wrong in ["3", "x", "0x", "-1x", "NaNx", "infx"] {
            assert!(wrong.parse::<Budget>().expect_err(wrong).to_string().contains("3x"));
        }
    }
}
