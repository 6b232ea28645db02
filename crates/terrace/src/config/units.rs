//! Quantities as people write them: `1MiB`, `2GB`, `100MB/s`, `5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub u64);

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(pub u64);

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(pub Duration);

const BYTES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0)
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let text = text.trim();
        let (digits, unit) =
            BYTES.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1));
        let parsed = match digits.trim().parse::<u64>() {
            Ok(whole) => whole.checked_mul(unit),
            Err(_) => number(digits).map(|n| (n * unit as f64) as u64),
        };
        parsed.map(Bytes).ok_or_else(|| format!("{text:?} is not a size; write it as 4096, 64KiB, 1.5GiB or 2GB"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = BYTES.iter().find(|(_, unit)| self.0 > 0 && self.0.is_multiple_of(*unit));
        let (name, unit) = unit.unwrap_or(&("B", 1));
        write!(f, "{}{name}", self.0 / unit)
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("{text:?} is not a rate; write it as 100MB/s");
        let bytes: Bytes = text.trim().strip_suffix("/s").ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
        if bytes.0 == 0 { Err(wrong()) } else { Ok(Rate(bytes.0)) }
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
        let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
        let found = units.iter().find_map(|(name, unit)| Some(number(text.trim().strip_suffix(name)?)? * unit));
        let seconds = found.and_then(|s| Duration::try_from_secs_f64(s).ok());
        seconds.map(Time).ok_or_else(|| format!("{text:?} is not a time; write it as 5ms, 200us or 1.5s"))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0.as_micros())
    }
}

macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
        impl From<$name> for String {
            fn from(quantity: $name) -> String {
                quantity.to_string()
            }
        }
    )*};
}
as_text!(Bytes, Rate, Time);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_written_and_print_as_read() {
        assert_eq!("1MiB".parse(), Ok(Bytes(1 << 20)));
        assert_eq!("1.5 GiB".parse(), Ok(Bytes(3 << 29)));
        assert_eq!("18446744073709551615".parse(), Ok(Bytes(u64::MAX)));
        assert_eq!("100MB/s".parse(), Ok(Rate(100_000_000)));
        assert_eq!("5ms".parse(), Ok(Time(Duration::from_millis(5))));
        for bytes in [0, 1, 1000, 4096, 1 << 30, 3_000_000, u64::MAX] {
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
        for wrong in ["", "x", "-1", "1QB", "99999999TiB9"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
        assert!("0MB/s".parse::<Rate>().is_err());
        assert!("5".parse::<Time>().is_err());
    }
}
