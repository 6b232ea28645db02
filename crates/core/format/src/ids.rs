//! Numbers of writes and segments.

use std::io;

/// Gives out numbers that are never given out again in the store: write ids and segment ids.
pub trait Ids: Send + Sync {
    /// Returns the next number.
    fn next(&self) -> io::Result<u64>;

    /// Returns the lowest number of a segment that may be appended to. A loss of power may have shortened older segments. A
    /// new frame there could get a place that the catalog still names.
    fn oldest(&self) -> u64 {
        0
    }

    /// Returns the lowest number of a segment that this process may go on appending to, if it appended to it before.
    fn oldest_in_use(&self) -> u64 {
        0
    }

    /// Returns the last commit. A target that names a later one was used with a newer copy of the store's directory.
    fn last_commit(&self) -> u64 {
        u64::MAX
    }

    /// Returns whether the log has a record, or may once have had it: the one with this last commit and this checksum. A target that names
    /// another record was used with another copy of the store's directory.
    fn continues(&self, _record: (u64, u64)) -> bool {
        true
    }

    /// Returns the end of the last place in a segment that any commit has named, freed or not. A segment that is shorter is
    /// not appended to: a new frame there would get a place that the catalog still names, and would be freed with it.
    ///
    /// # Errors
    /// If it is not known. Then the segment is not appended to.
    fn named_end(&self, _target: u16, _segment: u64) -> io::Result<u64> {
        Ok(0)
    }

    /// Returns the least number of frames that must be in a segment, if it is known: those that the catalog names.
    ///
    /// # Errors
    /// If it cannot be read.
    fn named_frames(&self, _target: u16, _segment: u64) -> io::Result<u64> {
        Ok(0)
    }
}
