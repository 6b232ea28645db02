//! [`MeasuredSpeed`]: the speed of a device, as its operations show it.

use serde::{Deserialize, Serialize};

/// Operations up to this number of bytes measure the latency, longer ones the rate.
pub const MAX_SHORT_OPERATION_BYTES: usize = 16 << 10;
/// The weight of a new operation against the average of all before it.
const NEWEST_WEIGHT: f64 = 1.0 / 16.0;
/// An operation counts for at most this multiple of its expected time, so that one stall, such as a first write's, does not
/// make a target look slower than the others of its tier.
const MAX_STALL_FACTOR: f64 = 16.0;
/// The latency that is assumed of any device for this limit, in seconds.
const EXPECTED_LATENCY_SECONDS: f64 = 0.5e-3;

/// The speed of a device in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSpeed {
    /// Bytes per second.
    pub rate: f64,
    /// Seconds before the first byte.
    pub latency: f64,
}

impl MeasuredSpeed {
    /// Returns the expected duration of an operation on `bytes` bytes, in seconds.
    pub fn time(self, bytes: usize) -> f64 {
        self.latency + bytes as f64 / self.rate
    }

    /// Returns whether a device can have it.
    pub fn is_sound(self) -> bool {
        self.rate > 0.0 && self.rate.is_finite() && self.latency >= 0.0 && self.latency.is_finite()
    }

    /// Returns the speed after an operation on `bytes` bytes that took `seconds`: a short one changes the latency, a longer one the rate.
    pub fn learn(self, bytes: usize, seconds: f64) -> MeasuredSpeed {
        let MeasuredSpeed { rate, latency } = self;
        if bytes <= MAX_SHORT_OPERATION_BYTES {
            let seconds = seconds.min(MAX_STALL_FACTOR * latency.max(EXPECTED_LATENCY_SECONDS));
            return MeasuredSpeed { latency: latency + (seconds - latency) * NEWEST_WEIGHT, ..self };
        }
        if seconds <= 0.0 {
            return self;
        }
        // Averages the time per byte, not the rate, so that a stall counts for the time that it cost.
        let (old, new) = (1.0 / rate, (seconds - latency).max(seconds / 2.0) / bytes as f64);
        MeasuredSpeed { rate: 1.0 / (old + (new.min(MAX_STALL_FACTOR * old) - old) * NEWEST_WEIGHT), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNUSED_DEVICE: MeasuredSpeed = MeasuredSpeed { rate: 1e9, latency: 0.0 };

    #[test]
    fn a_device_is_believed_to_be_as_quick_as_it_was() {
        let speed = (0..200).fold(UNUSED_DEVICE, |speed, _| speed.learn(4096, 0.005).learn(1 << 20, 0.005 + 0.010));
        let rate = (1 << 20) as f64 / 0.010;
        assert!((speed.rate / rate - 1.0).abs() < 0.01, "{speed:?}");
        assert!((speed.time(1 << 20) - 0.015).abs() < 0.0005, "{speed:?}");
    }

    #[test]
    fn one_stall_halves_what_a_device_is_believed_to_do_at_most() {
        let speed = UNUSED_DEVICE.learn(1 << 20, 10.0).learn(1 << 10, 10.0);
        assert!(speed.rate > 5e8 && speed.latency < 1.1 * EXPECTED_LATENCY_SECONDS, "{speed:?}");
        let slow = (0..100).fold(speed, |speed, _| speed.learn(1 << 20, 1.0));
        assert!(slow.rate < 1.1 * f64::from(1 << 20), "what stays slow is believed: {slow:?}");
    }
}
