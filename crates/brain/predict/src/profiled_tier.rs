//! [`ProfiledTier`]: the speed of a tier in a profile of the machine.

use serde::{Deserialize, Serialize};

/// A tier's speed, as `terrace profile` measured it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfiledTier {
    /// Bytes written per second.
    pub write: f64,
    /// Bytes read per second.
    pub read: f64,
    /// The time before the first byte moves, in seconds.
    pub latency: f64,
}
