//! [`Expected`]: the effect of an encoding on some bytes.

use serde::{Deserialize, Serialize};

/// The expected effect of an encoding, for each byte (the papers' expected compression cost, ECC).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Stored bytes for each raw byte; 1 if nothing shrinks.
    pub stored: f64,
    /// The time of one thread to encode, in seconds.
    pub encode: f64,
    /// The time of one thread to decode, in seconds.
    pub decode: f64,
}

impl Expected {
    /// Raw storage.
    pub const NONE: Expected = Expected { stored: 1.0, encode: 0.0, decode: 0.0 };

    /// Converts raw bytes encoded per second, raw bytes decoded per second, and raw bytes over stored bytes.
    pub const fn from_speeds(encoded: f64, decoded: f64, ratio: f64) -> Expected {
        Expected { stored: 1.0 / ratio, encode: 1.0 / encoded, decode: 1.0 / decoded }
    }

    /// Returns the raw bytes for each stored byte.
    pub fn ratio(&self) -> f64 {
        1.0 / self.stored
    }

    /// Returns the expectation for a machine that takes `slower` times as long.
    pub fn on_slower(self, slower: f64) -> Expected {
        Expected { encode: self.encode * slower, decode: self.decode * slower, ..self }
    }

    /// Returns whether a measurement can have given it: the size is positive, and the times are not negative.
    pub fn is_sound(&self) -> bool {
        let is_time = |time: f64| time.is_finite() && time >= 0.0;
        self.stored.is_finite() && self.stored > 0.0 && is_time(self.encode) && is_time(self.decode)
    }

    /// Returns the expectation after an operation that took `measured`: a geometric mean, because times and sizes err
    /// by factors. `share` is the weight of `measured`: 0 learns nothing, 1 forgets the past. A part that was not
    /// measured is NaN, and does not change.
    pub fn learn(&self, measured: &Expected, share: f64) -> Expected {
        let nearer = |old: f64, new: f64| if new > 0.0 { old * (new / old).powf(share.clamp(0.0, 1.0)) } else { old };
        Expected {
            stored: nearer(self.stored, measured.stored),
            encode: nearer(self.encode, measured.encode),
            decode: nearer(self.decode, measured.decode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learning_changes_only_measured_parts() {
        let mut expected = Expected::from_speeds(1e9, 2e9, 4.0);
        let measured = Expected { stored: 1.0, encode: 1e-8, decode: f64::NAN };
        assert_eq!(expected.learn(&measured, 0.5).stored, 0.5);
        for _ in 0..50 {
            expected = expected.learn(&measured, 0.3);
        }
        assert!((expected.encode - 1e-8).abs() < 1e-13 && (expected.stored - 1.0).abs() < 1e-5);
        assert_eq!(expected.decode, 0.5e-9);
    }
}
