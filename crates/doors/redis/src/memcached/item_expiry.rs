//! Times to live, as memcached counts them.

use crate::clock::Moment;
use crate::commands::{ExpiryUnit, resolve_expiry};

/// A longer time to live is a time of day instead: seconds since 1970.
const MAX_RELATIVE_SECONDS: i64 = 30 * 24 * 60 * 60;

/// When an item with this time to live expires; none: never. A negative one is over at once.
pub fn item_expiry(seconds: i64, now: Moment) -> Option<Moment> {
    match seconds {
        0 => None,
        ..0 => Some(now),
        // What is beyond all times of the store is as good as never.
        1..=MAX_RELATIVE_SECONDS => resolve_expiry(seconds, ExpiryUnit::Seconds, now),
        _ => resolve_expiry(seconds, ExpiryUnit::AtSecond, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_to_live_is_a_time_of_day() {
        let now = Moment::from_nanos(2_000_000_000 * 1_000_000_000);
        let seconds = |moment: Option<Moment>| moment.map(|moment| moment.millis() / 1000);
        for (given, expected) in [
            (0, None),
            (-1, Some(2_000_000_000)),
            (60, Some(2_000_000_060)),
            (MAX_RELATIVE_SECONDS, Some(2_000_000_000 + MAX_RELATIVE_SECONDS)),
            (MAX_RELATIVE_SECONDS + 1, Some(MAX_RELATIVE_SECONDS + 1)),
            (2_000_000_007, Some(2_000_000_007)),
        ] {
            assert_eq!(seconds(item_expiry(given, now)), expected, "{given}");
        }
        assert_eq!(item_expiry(i64::MAX, now), None);
    }
}
