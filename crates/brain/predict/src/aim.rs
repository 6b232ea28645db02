//! [`Aim`]: the purpose for which encodings are studied.

use terrace_cost::{Objective, TargetRates, Weights};

/// Encoding does not pay on devices with at least this write rate.
const FAST_BYTES_PER_SECOND: f64 = 1e9;
/// If the ratio has at least this weight, the number of stored bytes is all that matters.
const DENSE_RATIO_WEIGHT: f64 = 0.8;
/// If stored bytes are all that matters, encodings are chosen as for a device of this speed: space is expensive then, not
/// time.
const ARCHIVE_BYTES_PER_SECOND: f64 = 2.5e5;

/// A device's speed in bytes per second, for writes and for reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Bytes written per second.
    pub write: f64,
    /// Bytes read per second.
    pub read: f64,
}

/// The purpose for which encodings are studied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aim {
    /// The speeds of the device that gets the bytes.
    pub pace: Pace,
    /// The speeds of the slowest device, for the first bytes of a stream: later bytes may have to go there.
    pub slowest: Option<Pace>,
    /// The weights of the replica.
    pub weights: Weights,
    /// The expected number of reads.
    pub reads: f64,
    /// Whether stored bytes matter more than time.
    pub dense: bool,
}

impl Aim {
    /// Returns the aim for a replica with these weights on a device. Stored bytes are what matters because of their weight, or because a
    /// budget for them limits the number of replicas.
    pub fn new(pace: Pace, weights: Weights, reads: f64, has_budget: bool) -> Aim {
        Aim { pace, slowest: None, weights, reads, dense: weights.ratio > DENSE_RATIO_WEIGHT || has_budget }
    }

    /// Returns whether an encoding may pay on the device.
    pub fn pays(&self) -> bool {
        self.dense || self.pace.write < FAST_BYTES_PER_SECOND
    }

    /// Returns the objective of the planner's cost model, on an idle target.
    pub fn objective(&self) -> Objective {
        self.objective_at(&self.pace)
    }

    /// Returns the objective on the slowest device, if there is one: the first bytes of a stream earn time for studies by it.
    pub fn slowest_objective(&self) -> Option<Objective> {
        self.slowest.as_ref().map(|pace| self.objective_at(pace))
    }

    /// Returns the objective for another device.
    fn objective_at(&self, pace: &Pace) -> Objective {
        let slow = if self.dense { ARCHIVE_BYTES_PER_SECOND } else { f64::INFINITY };
        let rate = |rate: f64| round_rate(rate.min(slow));
        let target = TargetRates::from_speeds(rate(pace.write), rate(pace.read), 0.0);
        Objective { weights: self.weights, target, reads: self.reads }
    }
}

/// Rounds a rate down to steps of 10 %, because each new rate makes the predictor choose again.
fn round_rate(rate: f64) -> f64 {
    1.1f64.powf(rate.max(1.0).ln().div_euclid(1.1f64.ln()))
}
