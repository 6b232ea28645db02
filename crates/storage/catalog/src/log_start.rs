//! Where a replay of the log begins.

use std::path::Path;

use crate::log::{Log, Tail, snapshot, snapshots};
use crate::snapshot::snapshot_tail;
use crate::{Error, Result};

/// The beginning of a log without a snapshot.
pub const FIRST_TAIL: Tail = Tail { sequence: 0, checksum: 0, file: 1, position: 0 };

/// Returns the newest complete snapshot in a folder of the log, and the position in the log after it.
///
/// # Errors
/// If the folder or a snapshot cannot be read.
pub fn newest_snapshot(folder: &Path, store: u64) -> Result<(Option<u64>, Tail)> {
    let found = snapshots(folder).map_err(Error::io(format!("listing {}", folder.display())))?;
    for sequence in found.into_iter().rev() {
        if let Some(tail) = snapshot_tail(&snapshot(folder, sequence), store)? {
            return Ok((Some(sequence), tail));
        }
    }
    Ok((None, FIRST_TAIL))
}

/// Returns the end of the log that is in a folder. Reads no other copy of the log.
///
/// # Errors
/// As [`newest_snapshot`].
pub fn find_end(folder: &Path, store: u64) -> Result<Tail> {
    let (_, from) = newest_snapshot(folder, store)?;
    Log::open(folder, store)?.replay_from(&[folder], from, |_, _, _| Ok::<_, Error>(()))
}
