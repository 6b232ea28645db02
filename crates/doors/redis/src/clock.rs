//! [`Moment`]: a time of day, as values expire.

use std::time::{SystemTime, UNIX_EPOCH};

const NANOS_PER_MILLI: u64 = 1_000_000;

/// A time, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The time now.
    pub fn now() -> Moment {
        // A clock before 1970 is wrong, whatever it says.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time that many nanoseconds after the beginning of 1970.
    pub fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    /// The time that many milliseconds after the beginning of 1970. A time before it counts as its beginning; none if it is too late.
    pub fn from_millis(millis: i64) -> Option<Moment> {
        match u64::try_from(millis) {
            Ok(millis) => millis.checked_mul(NANOS_PER_MILLI).map(Moment),
            Err(_) => Some(Moment(0)),
        }
    }

    /// Nanoseconds since 1970.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since 1970.
    pub fn millis(self) -> i64 {
        (self.0 / NANOS_PER_MILLI) as i64
    }
}
