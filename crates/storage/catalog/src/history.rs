//! Whether a log is the one that a note is about.

use crate::log::Log;
use crate::log_start::newest_snapshot;
use crate::{Error, Result};

impl Log {
    /// Returns whether this log has a record with this last commit and this checksum, or once had all commits up to that one: it may begin
    /// behind them.
    pub fn continues(&self, (commit, checksum): (u64, u64)) -> Result<bool> {
        let (_, start) = newest_snapshot(self.folder(), self.store())?;
        if commit <= start.sequence {
            return Ok(commit < start.sequence || checksum == start.checksum || commit == 0);
        }
        let mut is_there = false;
        self.replay(start, |record| {
            is_there |= (record.tail.sequence, record.tail.checksum) == (commit, checksum);
            Ok::<_, Error>(())
        })?;
        Ok(is_there)
    }
}
