//! [`TargetRates`]: the speeds of a target, for the cost models.

/// The time that a target takes to store and to return bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TargetRates {
    /// Seconds to read a byte.
    pub read: f64,
    /// Seconds to write a byte.
    pub write: f64,
    /// Seconds before the first byte.
    pub latency: f64,
    /// Seconds that a byte stored here adds to later writes: if the target fills up, another byte goes to a slower one.
    pub displaced_write: f64,
    /// Seconds that a byte stored here adds to later reads, for the same reason.
    pub displaced_read: f64,
    /// The target's own work without waiting times. Energy follows from it.
    pub work: Work,
    /// Joules that a byte stored here adds at the next tier, if the target fills up.
    pub displaced_joules: Work,
    /// The number of waiting operations for each operation that the target can run at a time.
    pub load: f64,
    /// The power of the target while it works, in watts.
    pub watts: f64,
    /// The power of a processor core, in watts.
    pub core_watts: f64,
}

/// An amount for each operation, and for each byte that it reads or writes: seconds or joules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// For each byte read.
    pub read: f64,
    /// For each byte written.
    pub write: f64,
    /// For each operation.
    pub latency: f64,
}

impl TargetRates {
    /// Makes the rates of an idle target with enough room: `write` and `read` in bytes per second, `latency` in
    /// seconds.
    pub fn from_speeds(write: f64, read: f64, latency: f64) -> TargetRates {
        let work = Work { read: 1.0 / read, write: 1.0 / write, latency };
        TargetRates { read: work.read, write: work.write, latency, work, ..TargetRates::default() }
    }
}
