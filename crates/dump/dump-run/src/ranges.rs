//! Ranges of addresses.

use std::ops::Range;

/// The size of a page on the one architecture of this crate.
pub const PAGE_BYTES: usize = 4096;

/// A range of addresses of this process.
pub type Addresses = Range<usize>;

/// Returns the pages that a range touches.
pub fn to_pages(range: &Addresses) -> Addresses {
    range.start / PAGE_BYTES * PAGE_BYTES..range.end.next_multiple_of(PAGE_BYTES)
}

/// Returns the parts of a range outside the holes, which are in order.
pub fn without(range: &Addresses, holes: &[Addresses]) -> Vec<Addresses> {
    let mut parts = Vec::new();
    let mut start = range.start;
    for hole in holes.iter().filter(|hole| hole.start < range.end && hole.end > range.start) {
        if start < hole.start {
            parts.push(start..hole.start);
        }
        start = start.max(hole.end);
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}
