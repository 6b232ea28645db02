//! [`Objective`]: the quantity that a choice of an encoding minimises.

use crate::{Expected, TargetRates, Weights, measured};

/// The objective of a choice of encoding: the cost, by the [measured](measured()) model, of storing some bytes on one
/// target and of reading them back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The weights.
    pub weights: Weights,
    /// The rates of the target.
    pub target: TargetRates,
    /// The expected number of reads.
    pub reads: f64,
}

impl Objective {
    /// Makes an objective that counts seconds.
    pub fn time(target: TargetRates, reads: f64) -> Self {
        Objective { weights: Weights::EQUAL, target, reads }
    }

    /// Returns the cost of an extent of `bytes` raw bytes, in seconds if the weights are equal.
    pub fn cost(&self, expected: &Expected, bytes: usize) -> f64 {
        let cost = measured(&self.target, expected, &self.weights, self.reads);
        cost.fixed + bytes as f64 * cost.per_byte
    }

    /// Returns the part of the cost that is encoding and decoding.
    pub fn work(&self, expected: &Expected, bytes: usize) -> f64 {
        let Weights { compress, decompress, .. } = self.weights;
        3.0 * bytes as f64 * (compress * expected.encode + decompress * self.reads * expected.decode)
    }

    /// Returns the cost of moving `bytes` raw bytes to the target, and back for each expected read.
    pub fn transfer(&self, bytes: u64) -> f64 {
        self.cost(&Expected::NONE, bytes as usize)
    }

    /// Returns whether the time to decode matters.
    pub fn reads_back(&self) -> bool {
        self.reads > 0.0 && self.weights.decompress > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_count_seconds() {
        let target = TargetRates::from_speeds(100e6, 200e6, 0.001);
        let expected = Expected { stored: 0.5, encode: 1e-9, decode: 2e-9 };
        let cost = Objective::time(target, 2.0).cost(&expected, 1_000_000);
        assert!((cost - (0.001 + 0.005 + 0.001 + 2.0 * (0.002 + 0.0025 + 0.001))).abs() < 1e-12, "{cost}");
    }
}
