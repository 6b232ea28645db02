//! [`ProfiledTier`]: what a profile of the machine says of a tier.

use serde::{Deserialize, Serialize};

/// A tier's speed, as `terrace profile` measured it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfiledTier {
    /// Bytes written in a second.
    pub write: f64,
    /// Bytes read in a second.
    pub read: f64,
    /// Seconds before the first byte moves.
    pub latency: f64,
}
