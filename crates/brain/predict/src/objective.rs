//! What is expected of an encoding, and what that costs where the bytes go.

use serde::{Deserialize, Serialize};

/// What an encoding is expected to do to some bytes, for each byte of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Bytes stored; 1 where nothing shrinks.
    pub stored: f64,
    /// Seconds of one thread to encode.
    pub encode: f64,
    /// Seconds of one thread to decode.
    pub decode: f64,
}

impl Expected {
    /// Bytes stored as they are.
    pub const NONE: Expected = Expected { stored: 1.0, encode: 0.0, decode: 0.0 };

    /// Raw bytes for each stored byte.
    pub fn ratio(&self) -> f64 {
        1.0 / self.stored
    }

    /// The same on a machine that takes so many times as long.
    pub(crate) fn on(self, slower: f64) -> Expected {
        Expected { encode: self.encode * slower, decode: self.decode * slower, ..self }
    }

    /// Whether it may have been measured.
    pub(crate) fn is_sound(&self) -> bool {
        let is_time = |time: f64| time.is_finite() && time >= 0.0;
        self.stored.is_finite() && self.stored > 0.0 && is_time(self.encode) && is_time(self.decode)
    }
}

/// What counts for how much: w_c, w_d and w_r of the papers. Only their proportions matter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Of the time to encode.
    pub encode: f64,
    /// Of the time to decode.
    pub decode: f64,
    /// Of the time to move what is stored.
    pub stored: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { encode: 1.0, decode: 1.0, stored: 1.0 }
    }
}

impl Weights {
    /// The same proportions with a sum of 3; equal ones where there are none.
    fn scaled(&self) -> Weights {
        let sum = self.encode + self.decode + self.stored;
        if sum <= 0.0 {
            return Weights::default();
        }
        let scale = 3.0 / sum;
        Weights { encode: self.encode * scale, decode: self.decode * scale, stored: self.stored * scale }
    }
}

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// Bytes written in a second.
    pub write: f64,
    /// Bytes read in a second.
    pub read: f64,
    /// Seconds before the first byte moves.
    pub latency: f64,
}

/// What a choice should make small.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// What counts for how much.
    pub weights: Weights,
    /// Where the bytes go.
    pub tier: Tier,
    /// How often they are expected to be read.
    pub reads: f64,
}

impl Objective {
    /// An objective that counts seconds.
    pub fn time(tier: Tier, reads: f64) -> Self {
        Objective { weights: Weights::default(), tier, reads }
    }

    /// What an extent of `bytes` raw bytes costs: seconds where the weights are equal.
    ///
    /// `w_c t_c + w_r (latency + z/write) + reads (w_d t_d + w_r (latency + z/read))`, the weights scaled to a sum of 3.
    pub fn cost(&self, expected: &Expected, bytes: usize) -> f64 {
        let stored = self.weights.scaled().stored;
        let transfer = expected.stored * (1.0 / self.tier.write + self.reads / self.tier.read);
        let latency = (1.0 + self.reads) * self.tier.latency;
        self.work(expected, bytes) + stored * (bytes as f64 * transfer + latency)
    }

    /// What of the cost is encoding and decoding.
    pub(crate) fn work(&self, expected: &Expected, bytes: usize) -> f64 {
        let Weights { encode, decode, .. } = self.weights.scaled();
        bytes as f64 * (encode * expected.encode + decode * self.reads * expected.decode)
    }

    /// Seconds to move `bytes` raw bytes, there and back as often as they are read.
    pub fn transfer(&self, bytes: u64) -> f64 {
        let latency = (1.0 + self.reads) * self.tier.latency;
        bytes as f64 * (1.0 / self.tier.write + self.reads / self.tier.read) + latency
    }

    /// Whether the time to decode matters.
    pub(crate) fn reads_back(&self) -> bool {
        self.reads > 0.0 && self.weights.decode > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIER: Tier = Tier { write: 100e6, read: 200e6, latency: 0.001 };

    #[test]
    fn equal_weights_count_seconds() {
        let expected = Expected { stored: 0.5, encode: 1e-9, decode: 2e-9 };
        let cost = Objective::time(TIER, 2.0).cost(&expected, 1_000_000);
        assert!((cost - (0.001 + 0.005 + 0.001 + 2.0 * (0.002 + 0.0025 + 0.001))).abs() < 1e-12, "{cost}");
    }

    #[test]
    fn only_proportions_of_weights_matter() {
        let expected = Expected { stored: 0.7, encode: 3e-9, decode: 1e-9 };
        let of = |scale: f64| {
            let weights = Weights { encode: 0.3 * scale, decode: 0.1 * scale, stored: 0.6 * scale };
            Objective { weights, tier: TIER, reads: 1.0 }.cost(&expected, 4096)
        };
        assert!((of(1.0) - of(7.0)).abs() < 1e-15);
    }
}
