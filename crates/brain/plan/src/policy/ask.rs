//! [`Ask`]: what one level asks for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Ack, Asked};
use crate::snapshot::TierSet;
use terrace_cost::{NotUnderstood, Weights};

/// Where something is asked for; the first that asks is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// With one request.
    Operation,
    /// For the requests of an application, or for the keys that a rule names.
    Application,
    /// For the whole store.
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

/// How many replicas there may and should be (the paper's MIN, MAX and DEFAULT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replicas {
    /// The fewest; at least 1.
    pub min: u8,
    /// The most; at most [`Replicas::LIMIT`].
    pub max: u8,
    /// Where nothing is asked for.
    pub default: u8,
}

impl Replicas {
    /// More replicas than this are never planned.
    pub const LIMIT: u8 = 16;
}

impl Default for Replicas {
    fn default() -> Self {
        Replicas { min: 1, max: 5, default: 3 }
    }
}

/// The most bytes stored per byte given, over all replicas; written as `3x`.
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

/// What one level asks for. Whatever is left out is left to the levels below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// What matters; where two conflict, the first stands.
    pub requirements: Vec<Asked>,
    /// How many replicas; wins over this level's requirements, as do the next two.
    pub replicas: Option<u8>,
    /// When a write returns.
    pub ack: Option<Ack>,
    /// The weights of all replicas.
    pub weights: Option<Weights>,
    /// The most bytes stored per byte given.
    pub budget: Option<Budget>,
    /// The highest latency, in seconds, of a target that holds replica 0.
    pub max_latency: Option<f64>,
    /// The only tiers to use.
    pub tiers: Option<TierSet>,
    /// Whether all replicas may lie on tiers that do not outlive a reboot.
    pub volatile: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_written_as_factors() {
        assert_eq!("3x".parse(), Ok(Budget(3.0)));
        assert_eq!(" 1.5x ".parse(), Ok(Budget(1.5)));
        for wrong in ["3", "x", "0x", "-1x", "NaNx", "infx"] {
            assert!(wrong.parse::<Budget>().expect_err(wrong).to_string().contains("3x"));
        }
    }
}
