//! The numbers of parts, and the lengths of those that an object was made of, so that each can be read.

use std::ops::{Range, RangeInclusive};

use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};
use terrace::{ETAG_DIGEST, Object};

/// The attribute with the lengths: `LENGTH` or `COUNTxLENGTH`, separated by commas.
pub const PART_LENGTHS: &str = "s3.parts";
/// The numbers that S3 has for parts.
const PART_NUMBERS: RangeInclusive<i32> = 1..=10_000;

/// The number of a part.
pub fn part_number(number: i32) -> S3Result<u32> {
    match u32::try_from(number) {
        Ok(found) if PART_NUMBERS.contains(&number) => Ok(found),
        _ => Err(s3_error!(InvalidArgument, "a part has a number from 1 to 10000, not {}", number)),
    }
}

/// Writes lengths of parts in runs of equal ones.
pub fn encode_lengths(lengths: impl Iterator<Item = u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for length in lengths {
        match runs.last_mut() {
            Some((count, last)) if *last == length => *count += 1,
            _ => runs.push((1, length)),
        }
    }
    let run = |(count, length): &(u64, u64)| if *count == 1 { length.to_string() } else { format!("{count}x{length}") };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// The lengths of the parts of an object, in runs. None if it has none, or its bytes are no longer those.
fn part_runs(object: &Object) -> Option<Vec<(u64, u64)>> {
    let run = |text: &str| match text.split_once('x') {
        Some((count, length)) => Some((count.parse().ok()?, length.parse().ok()?)),
        None => Some((1, text.parse().ok()?)),
    };
    let runs: Vec<(u64, u64)> = object.attributes.user.get(PART_LENGTHS)?.split(',').map(run).collect::<Option<_>>()?;
    // A file that was changed has no digest any more, and other lengths.
    object.attributes.digest(ETAG_DIGEST)?;
    let total = runs.iter().try_fold(0u64, |sum, (count, length)| sum.checked_add(count.checked_mul(*length)?))?;
    // Anybody may set attributes, to any text.
    let parts = runs.iter().try_fold(0u64, |sum, (count, _)| sum.checked_add(*count))?;
    (total == object.length && parts <= *PART_NUMBERS.end() as u64).then_some(runs)
}

/// The number of parts of an object that was uploaded in parts.
pub fn part_count(object: &Object) -> Option<i32> {
    let count: u64 = part_runs(object)?.iter().map(|(count, _)| count).sum();
    count.try_into().ok()
}

/// The bytes of a part of an object. One that was not uploaded in parts is its only part.
pub fn part_range(object: &Object, number: i32) -> S3Result<Range<u64>> {
    let wanted = u64::from(part_number(number)?);
    let (mut first, mut start) = (1, 0);
    for (count, length) in part_runs(object).unwrap_or_else(|| vec![(1, object.length)]) {
        if wanted < first + count {
            let start = start + (wanted - first) * length;
            return Ok(start..start + length);
        }
        (first, start) = (first + count, start + count * length);
    }
    let mut missing =
        S3Error::with_message(S3ErrorCode::Custom("InvalidPartNumber".into()), "the object has fewer parts");
    missing.set_status_code(StatusCode::RANGE_NOT_SATISFIABLE);
    Err(missing)
}

#[cfg(test)]
mod tests {
    use terrace::Attributes;

    use super::*;
    use crate::described;

    #[test]
    fn parts_are_found_by_their_lengths() {
        let lengths = [7, 7, 7, 5, 7, 0];
        let text = encode_lengths(lengths.into_iter());
        assert_eq!(text, "3x7,5,7,0");
        let mut attributes = Attributes::default();
        described::set(&mut attributes, PART_LENGTHS, Some(text));
        let mut object = Object { id: 1, generation: 1, length: 33, want: 1, attributes, extents_in_record: None };
        assert_eq!(part_count(&object), None, "its bytes were changed");
        object.attributes.set_digest(ETAG_DIGEST, "1");
        assert_eq!(part_count(&object), Some(6));
        let mut start = 0;
        for (place, length) in lengths.into_iter().enumerate() {
            assert_eq!(part_range(&object, place as i32 + 1).expect("is there"), start..start + length);
            start += length;
        }
        assert!(part_range(&object, 7).is_err() && part_range(&object, 0).is_err());
        object.length = 34;
        assert_eq!(part_range(&object, 1).expect("is the only one"), 0..34);
    }
}
