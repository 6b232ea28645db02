//! [`Expected`]: what an encoding does to some bytes.

use serde::{Deserialize, Serialize};

/// The expected effect of an encoding, for each byte (the papers' expected compression cost, ECC).
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

    /// From bytes encoded and decoded per second, and bytes before over bytes after.
    pub const fn from_speeds(encoded: f64, decoded: f64, ratio: f64) -> Expected {
        Expected { stored: 1.0 / ratio, encode: 1.0 / encoded, decode: 1.0 / decoded }
    }

    /// Raw bytes for each stored byte.
    pub fn ratio(&self) -> f64 {
        1.0 / self.stored
    }

    /// The same on a machine that takes `slower` times as long.
    pub fn on_slower(self, slower: f64) -> Expected {
        Expected { encode: self.encode * slower, decode: self.decode * slower, ..self }
    }

    /// Whether a measurement can have given it: a positive size, and times that are not negative.
    pub fn is_sound(&self) -> bool {
        let is_time = |time: f64| time.is_finite() && time >= 0.0;
        self.stored.is_finite() && self.stored > 0.0 && is_time(self.encode) && is_time(self.decode)
    }

    /// The expectation after an operation took `measured`: nearer to it by `share` (0: nothing learnt; 1: only the last
    /// counts), as a geometric mean, since times and sizes err by factors. What was not measured is NaN, and stays.
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
    fn learning_goes_to_what_is_measured_and_keeps_what_is_not() {
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
