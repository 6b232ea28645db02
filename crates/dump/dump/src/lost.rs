//! Ranges of bytes that are lost.

use crate::manifest::{Complete, Position};
use crate::{Error, Lost, Result};

impl Lost {
    /// Returns the range of a chunk.
    pub(crate) fn of(rank: u32, at: Position) -> Lost {
        Lost { rank, buffer: at.buffer, start: at.start, end: at.start + u64::from(at.length) }
    }

    /// Returns the ranges of all buffers of a rank.
    pub(crate) fn all_of(complete: &Complete, rank: u32) -> impl Iterator<Item = Lost> {
        let lengths = complete.buffers.get(rank as usize).map_or(&[][..], Vec::as_slice);
        (0..).zip(lengths).map(move |(buffer, end)| Lost { rank, buffer, start: 0, end: *end })
    }

    /// Sorts ranges, and joins those that follow each other.
    pub(crate) fn join(mut lost: Vec<Lost>) -> Vec<Lost> {
        lost.retain(|range| range.start < range.end);
        lost.sort_unstable();
        let mut ranges: Vec<Lost> = Vec::new();
        for range in lost {
            match ranges.last_mut() {
                Some(last) if (last.rank, last.buffer, last.end) == (range.rank, range.buffer, range.start) => {
                    last.end = range.end;
                }
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// # Errors
    /// [`Error::Lost`] if there are any.
    pub(crate) fn check(lost: Vec<Lost>) -> Result<()> {
        if lost.is_empty() { Ok(()) } else { Err(Error::Lost(lost)) }
    }
}
