//! The form of a cost, and the cost models.

use serde::{Deserialize, Serialize};

use crate::{Expected, TargetRates, Weights};

/// The cost of `n` bytes in one extent: `fixed + n * per_byte`, in seconds or joules, weighted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// The part that does not depend on the length.
    pub fixed: f64,
    /// The part for each raw byte.
    pub per_byte: f64,
}

/// A cost model: returns the cost of a replica on a target, in an encoding, with weights and an expected number of
/// reads.
pub type CostModel = fn(&TargetRates, &Expected, &Weights, reads: f64) -> Affine;

/// The cost models for durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// The model of [`measured`](crate::measured()).
    #[default]
    Measured,
    /// The model of [`paper`](crate::paper()).
    Paper,
}

#[cfg(test)]
mod tests {
    use crate::{Expected, TargetRates, Weights, Work, energy, measured, paper};

    const DISK_RATES: TargetRates = TargetRates {
        read: 1e-8,
        write: 2e-8,
        latency: 5e-3,
        displaced_write: 0.0,
        displaced_read: 0.0,
        work: Work { read: 1e-8, write: 2e-8, latency: 5e-3 },
        displaced_joules: Work { read: 0.0, write: 0.0, latency: 0.0 },
        load: 0.0,
        watts: 10.0,
        core_watts: 5.0,
    };

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn the_papers_model_equals_its_equation() {
        let encoding = Expected::from_speeds(1e9, 2e9, 4.0);
        let weights = Weights { compress: 0.5, decompress: 0.25, ratio: 0.25 };
        let (t_c, t_d) = (encoding.encode, encoding.decode);
        let cost = paper(&DISK_RATES, &encoding, &weights, 7.0);
        assert_eq!(cost.fixed, 0.0);
        close(cost.per_byte, 0.5 * t_c + 2e-8 - 0.25 * 2e-8 * 3.0 / 4.0 + 0.25 * t_d);
    }

    #[test]
    fn the_measured_model_counts_seconds_at_equal_weights() {
        let encoding = Expected::from_speeds(1e9, 2e9, 4.0);
        let cost = measured(&DISK_RATES, &encoding, &Weights::EQUAL, 2.0);
        close(cost.fixed, 3.0 * 5e-3);
        close(cost.per_byte, encoding.encode + 2e-8 / 4.0 + 2.0 * (1e-8 / 4.0 + encoding.decode));
    }

    #[test]
    fn energy_is_watts_times_seconds() {
        let encoding = Expected::from_speeds(1e9, 2e9, 4.0);
        let cost = energy(&DISK_RATES, &encoding, &Weights::ARCHIVAL, 1.0);
        close(cost.fixed, 2.0 * 5e-3 * 10.0);
        let (device, core) = (2e-8 / 4.0 + 1e-8 / 4.0, encoding.encode + encoding.decode);
        close(cost.per_byte, device * 10.0 + core * 5.0);
        let busy = TargetRates { write: 1e-6, latency: 1.0, ..DISK_RATES };
        assert_eq!(energy(&busy, &encoding, &Weights::ARCHIVAL, 1.0), cost, "waiting draws nothing");
    }
}
