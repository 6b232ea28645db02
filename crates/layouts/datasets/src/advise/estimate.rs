//! Estimates what an access fetches: the bytes by the plans of a real read, and the time by the prices of the replicas.

use std::ops::Range;

use terrace::Affine;

use crate::Result;
use crate::access::Run;
use crate::touch::{GATHER_PIECE_BYTES, READ_GAP_BYTES, fetched_ranges, find_touched_parts};
use crate::ways::Ways;

/// The requests of an access that are looked at, if they are short, and if they are long. The others count like these.
const MAX_SHORT_REQUESTS: u64 = 1024;
const MAX_LONG_REQUESTS: u64 = 16;
const MAX_SHORT_REQUEST_BYTES: u64 = 4 << 10;
/// The bytes that a request fetches are at hand for the next one, if they are no more than these.
const MAX_CACHED_BYTES: u64 = 64 << 20;

/// The bytes that an access fetches, and the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fetch {
    /// The bytes, before encoding.
    pub bytes: f64,
    pub seconds: f64,
}

/// Returns what an access fetches. `price_of` returns the time to read from a file.
pub fn estimate(ways: &Ways, run: &Run, price_of: impl Fn(usize) -> Affine) -> Result<Fetch> {
    let pieces = run.length.div_ceil(GATHER_PIECE_BYTES).max(1);
    let all = run.count.saturating_mul(pieces);
    let looked_at = all.min(match run.length <= MAX_SHORT_REQUEST_BYTES {
        true => MAX_SHORT_REQUESTS,
        false => MAX_LONG_REQUESTS,
    });
    let stride = (run.count > 1).then_some(run.stride);
    let (mut fetch, mut cached) = (Fetch::default(), Vec::new());
    for number in 0..looked_at {
        let (part, piece) = (number / pieces, number % pieces * GATHER_PIECE_BYTES);
        let offset = run.offset.saturating_add(part.saturating_mul(run.stride)).saturating_add(piece);
        let length = (run.length - piece).min(GATHER_PIECE_BYTES).min(ways.mixed.length().saturating_sub(offset));
        let plan = ways.nearest(offset, length, stride)?;
        let parts = find_touched_parts(plan, offset, length, READ_GAP_BYTES)?;
        let ranges = fetched_ranges(&parts, |file| ways.length_of(file));
        for (file, range) in ranges.iter().flat_map(|(file, range)| missing(*file, range.clone(), &cached)) {
            let (bytes, price) = ((range.end - range.start) as f64, price_of(file));
            fetch.bytes += bytes;
            fetch.seconds += price.fixed + bytes * price.per_byte;
        }
        let fetched: u64 = ranges.iter().map(|(_, range)| range.end - range.start).sum();
        cached = if fetched <= MAX_CACHED_BYTES { ranges } else { Vec::new() };
    }
    let share = all as f64 / looked_at as f64;
    Ok(Fetch { bytes: fetch.bytes * share, seconds: fetch.seconds * share })
}

/// Returns the parts of a file's range that are not cached. `cached` is in order.
fn missing(file: usize, range: Range<u64>, cached: &[(usize, Range<u64>)]) -> Vec<(usize, Range<u64>)> {
    let mut left = Vec::new();
    let mut start = range.start;
    let first = cached.partition_point(|(other, has)| (*other, has.end) <= (file, range.start));
    for (_, has) in cached.iter().skip(first).take_while(|(other, has)| *other == file && has.start < range.end) {
        if start < has.start {
            left.push((file, start..has.start));
        }
        start = has.end;
    }
    if start < range.end {
        left.push((file, start..range.end));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_are_not_cached_are_missing() {
        let cached = [(0, 0..100), (1, 10..20), (1, 30..40), (2, 0..5)];
        assert_eq!(missing(1, 0..50, &cached), [(1, 0..10), (1, 20..30), (1, 40..50)]);
        assert_eq!(missing(1, 12..35, &cached), [(1, 20..30)]);
        assert_eq!(missing(1, 20..30, &cached), [(1, 20..30)]);
        assert_eq!(missing(3, 0..5, &cached), [(3, 0..5)]);
        assert!(missing(0, 20..100, &cached).is_empty());
    }
}
