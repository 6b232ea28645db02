//! Numbers of writes and segments.

use std::io;

/// Gives out numbers that are never given out again in the store: write ids and segment ids.
pub trait Ids: Send + Sync {
    /// The next number.
    fn next(&self) -> io::Result<u64>;

    /// Segments of lower numbers are not added to: a power loss may have shortened them, and what the catalog says is
    /// behind their end must not be taken for what is written there now.
    fn oldest(&self) -> u64 {
        0
    }

    /// The end of the last place in a segment that any commit has named, given back or not. A segment that is found shorter
    /// is not added to: what is written there now would be taken for what was there, and freed with it.
    ///
    /// # Errors
    /// Where it cannot be told; the segment is not added to then.
    fn named_end(&self, _target: u16, _segment: u64) -> io::Result<u64> {
        Ok(0)
    }
}
