//! Numbers in arguments and values.

use crate::problem::{NOT_A_FLOAT, NOT_AN_INTEGER, Problem, said};
use crate::resp::format_double;

/// The largest offset of a bit: a value has at most 512 MiB.
pub const MAX_BIT_OFFSET: u64 = (512 << 23) - 1;

/// Parses a whole number. Only its shortest text is accepted, so that a value keeps its text when it is read as a number.
pub fn parse_integer(bytes: &[u8]) -> Result<i64, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| NOT_AN_INTEGER)?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_shortest = text == "0" || digits.starts_with(|digit: char| ('1'..='9').contains(&digit));
    if !is_shortest {
        return Err(NOT_AN_INTEGER);
    }
    text.parse().map_err(|_| NOT_AN_INTEGER)
}

/// Parses a number, which may be infinite.
pub fn parse_float(bytes: &[u8]) -> Result<f64, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| NOT_A_FLOAT)?;
    let number: f64 = text.parse().map_err(|_| NOT_A_FLOAT)?;
    if number.is_nan() { Err(NOT_A_FLOAT) } else { Ok(number) }
}

/// Parses a count that is not negative.
pub fn parse_count(bytes: &[u8]) -> Result<usize, Problem> {
    let count = parse_integer(bytes)?;
    usize::try_from(count).map_err(|_| said("ERR value is out of range, must be positive"))
}

/// Adds decimal numbers. The sum of numbers without an exponent is exact in all their decimals.
pub fn add_decimals(value: &[u8], increment: &[u8]) -> Result<String, Problem> {
    let sum = parse_float(value)? + parse_float(increment)?;
    if !sum.is_finite() {
        return Err(said("ERR increment would produce NaN or Infinity"));
    }
    match (decimals(value), decimals(increment)) {
        (Some(a), Some(b)) if a.max(b) < 16 && sum.abs() < 1e15 => {
            let text = format!("{sum:.*}", a.max(b));
            let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
            Ok(if text == "-0" { "0".to_owned() } else { text.to_owned() })
        }
        // Without an exponent, as Redis writes it, wherever a reader can still take it in.
        _ if sum.abs() < 1e40 => Ok(sum.to_string()),
        _ => Ok(format_double(sum)),
    }
}

/// The number of decimals; none if there is an exponent.
fn decimals(bytes: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(bytes).ok()?;
    match text.split_once('.') {
        Some((_, decimals)) => decimals.bytes().all(|digit| digit.is_ascii_digit()).then_some(decimals.len()),
        None => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'+').then_some(0),
    }
}

/// Resolves the bounds of a range; negative ones count from the end. Returns first and last, or none if it is empty.
pub fn resolve_range(start: i64, stop: i64, length: usize) -> Option<(usize, usize)> {
    let length = i64::try_from(length).ok()?;
    let from_end = |bound: i64| if bound < 0 { bound.saturating_add(length) } else { bound };
    let start = from_end(start).max(0);
    let stop = from_end(stop).min(length - 1);
    (start <= stop && stop >= 0).then_some((start as usize, stop as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_shortest_text_of_a_number_is_accepted() {
        for (text, number) in
            [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
        {
            assert_eq!(parse_integer(text.as_bytes()).unwrap(), number);
        }
        for wrong in ["", " 1", "1 ", "+1", "01", "-0", "-", "1.0", "9223372036854775808"] {
            assert!(parse_integer(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(parse_float(b"nan").is_err() && parse_float(b" 1").is_err());
    }

    #[test]
    fn decimals_are_added_exactly() {
        for (value, increment, sum) in [
            ("1", "-1.1", "-0.1"),
            ("3.0", "1.10", "4.1"),
            ("1.5", "-1.5", "0"),
            ("1", "5e3", "5001"),
            ("17179869184", "1.5", "17179869185.5"),
        ] {
            assert_eq!(add_decimals(value.as_bytes(), increment.as_bytes()).unwrap(), sum);
        }
        assert!(add_decimals(b"1e308", b"1e308").is_err());
    }

    #[test]
    fn ranges_are_cut_to_what_is_there() {
        assert_eq!(resolve_range(0, -1, 5), Some((0, 4)));
        assert_eq!(resolve_range(-100, 100, 5), Some((0, 4)));
        assert_eq!(resolve_range(-2, -1, 5), Some((3, 4)));
        assert_eq!(resolve_range(3, 2, 5), None);
        assert_eq!(resolve_range(5, 9, 5), None);
        assert_eq!(resolve_range(0, -9, 5), None);
        assert_eq!(resolve_range(i64::MIN, i64::MAX, 0), None);
    }
}
