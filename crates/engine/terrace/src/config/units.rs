//! Quantities as people write them: `1MiB`, `2GB`, `100MB/s`, `5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes, written as `64KiB`, `1.5GiB` or `2GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// Bytes per second, written as `100MB/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// A length of time, written as `5ms`, `1.5s`, `10min`, `12h` or `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

/// A unit must come before units whose name is its ending, such as `MB` before `B`.
const BYTE_UNITS: [(&str, u64); 10] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

/// In nanoseconds. A unit must come before units whose name is its ending, such as `us` before `s`.
const TIME_UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Returns `text` times `unit`, if that is a number of at most 64 bits. Whole numbers are exact.
fn scaled(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim();
    if let Ok(whole) = text.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let plain = text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let product = text.parse::<f64>().ok().filter(|_| plain)? * unit as f64;
    (product < u64::MAX as f64).then_some(product.round() as u64)
}

/// Returns the number before the first of `units` that `text` ends with, times that unit.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
    scaled(number, unit)
}

/// Writes `amount` in the largest unit that divides it.
fn in_largest(amount: u64, units: &[(&'static str, u64)], none: &'static str) -> String {
    let fits = units.iter().filter(|(_, unit)| amount > 0 && amount.is_multiple_of(*unit));
    match fits.max_by_key(|(_, unit)| *unit) {
        Some((name, unit)) => format!("{}{name}", amount / unit),
        None => format!("{amount}{none}"),
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let trimmed = text.trim();
        let bytes = with_unit(trimmed, &BYTE_UNITS).or_else(|| trimmed.parse().ok());
        bytes.map(Bytes).ok_or_else(|| format!("{text:?} is not a size; write it as \"64KiB\", \"1.5GiB\" or \"2GB\""))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_largest(self.0, &BYTE_UNITS[..8], "B"))
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let bytes = text.trim().strip_suffix("/s").and_then(|bytes| with_unit(bytes.trim(), &BYTE_UNITS));
        let rate = bytes.filter(|&bytes| bytes > 0).map(Rate);
        rate.ok_or_else(|| format!("{text:?} is not a rate above 0; write it as \"100MB/s\" or \"1.5GiB/s\""))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Bytes(self.0))
    }
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        let time = with_unit(text.trim(), &TIME_UNITS).map(|nanoseconds| Time(Duration::from_nanos(nanoseconds)));
        time.ok_or_else(|| format!("{text:?} is not a time; write it as \"200us\", \"5ms\" or \"1.5s\""))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Versions before 0.2 read no minutes, hours and days.
        f.write_str(&in_largest(self.0.as_nanos() as u64, &TIME_UNITS[..4], "s"))
    }
}

macro_rules! as_text {
    ($($name:ident: $expected:literal),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    )*};
}
as_text!(Bytes: "a size in quotes, such as \"64KiB\"", Rate: "a rate in quotes, such as \"100MB/s\"", Time: "a time in quotes, such as \"5ms\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_mean_what_they_say() {
        for (text, bytes) in
            [("1MiB", 1 << 20), ("1.5 GiB", 3 << 29), (" 2GB ", 2_000_000_000), ("3kB", 3000), ("7B", 7)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        assert_eq!("18446744073709551615".parse(), Ok(Bytes(u64::MAX)));
        assert_eq!("100MB/s".parse(), Ok(Rate(100_000_000)));
        assert_eq!("5ms".parse(), Ok(Time(Duration::from_millis(5))));
        assert_eq!("1.5s".parse(), Ok(Time(Duration::from_millis(1500))));
        assert_eq!("0s".parse(), Ok(Time(Duration::ZERO)));
        for (text, seconds) in [("10min", 600), ("10m", 600), ("12h", 43_200), ("1.5 h", 5400), ("7d", 604_800)] {
            assert_eq!(text.parse(), Ok(Time(Duration::from_secs(seconds))), "{text}");
        }
        assert_eq!(Time(Duration::from_secs(86_400)).to_string(), "86400s");
    }

    #[test]
    fn quantities_print_in_the_largest_unit_that_is_exact() {
        assert_eq!(Bytes(1 << 20).to_string(), "1MiB");
        assert_eq!(Bytes(2_000_000_000).to_string(), "2GB");
        assert_eq!(Bytes(0).to_string(), "0B");
        assert_eq!(Rate(100_000_000).to_string(), "100MB/s");
        assert_eq!(Time(Duration::from_millis(1500)).to_string(), "1500ms");
        assert_eq!(Time(Duration::ZERO).to_string(), "0s");
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_an_example() {
        for wrong in ["", "x", "B", "-1", "1QB", "infGB", "1e3MB", ".B", "99999999TiB9", "99999999999TiB", "1.2.3MB"] {
            assert!(wrong.parse::<Bytes>().expect_err(wrong).contains("64KiB"), "{wrong}");
        }
        for wrong in ["100MB", "0MB/s", "100/s", "/s"] {
            assert!(wrong.parse::<Rate>().expect_err(wrong).contains("100MB/s"), "{wrong}");
        }
        for wrong in ["5", "ms", "-5ms", "5 minutes"] {
            assert!(wrong.parse::<Time>().expect_err(wrong).contains("5ms"), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(digits in 0..u64::MAX, shift in 0u32..64, nanoseconds in any::<u64>()) {
            for amount in [digits, digits >> shift << shift, (digits >> shift).saturating_mul(1000)] {
                prop_assert_eq!(Bytes(amount).to_string().parse(), Ok(Bytes(amount)));
                prop_assert_eq!(Rate(amount.max(1)).to_string().parse(), Ok(Rate(amount.max(1))));
            }
            let time = Time(Duration::from_nanos(nanoseconds));
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
