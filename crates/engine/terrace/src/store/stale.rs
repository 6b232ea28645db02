//! Retries of writes whose bytes a restarted node may have lost.

use crate::{Error, Result};

/// The number of times that a write is tried again after its node has restarted.
pub(super) const MAX_STALE_WRITES: usize = 3;

/// Calls `write` again while it fails with [`Error::Stale`], up to three times: the node that held the bytes has restarted before
/// they were committed. `write` reads its source from the start each time.
pub fn retry_if_stale<T>(mut write: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..MAX_STALE_WRITES {
        match write() {
            Err(Error::Stale) => {}
            done => return done,
        }
    }
    write()
}
