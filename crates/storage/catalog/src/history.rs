//! Whether a log is the one that a note is about.

use crate::log::{Log, Tail, snapshot, snapshots};
use crate::snapshot::snapshot_tail;
use crate::{Error, Result};

impl Log {
    /// Returns whether this log has a record with this last commit and this checksum, or once had all commits up to that one: it may begin
    /// behind them.
    pub fn continues(&self, (commit, checksum): (u64, u64)) -> Result<bool> {
        let mut start = Tail { file: 1, ..Tail::default() };
        for sequence in snapshots(self.folder()).map_err(Error::io("listing the log"))?.into_iter().rev() {
            if let Some(tail) = snapshot_tail(&snapshot(self.folder(), sequence), self.store())? {
                start = tail;
                break;
            }
        }
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
