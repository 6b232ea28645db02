//! Writes bytes as extents, and extents as frames. The caller's commit makes them visible.

mod draft;
mod kept;
mod plain;
mod receipt;

use std::sync::Arc;
use std::time::Instant;

use terrace_catalog::Catalog;
use terrace_plan::snapshot::TierSet;

pub(crate) use draft::{Draft, Update};
pub(crate) use kept::{Kept, KeptBytes};
pub use receipt::{OwedTo, Receipt};

use crate::Result;
use crate::place::Planning;

/// Writes the frames of objects.
pub(crate) struct Writer {
    pub catalog: Arc<Catalog>,
    pub planning: Arc<Planning>,
    /// The raw bytes of pending replicas, for the mover.
    pub kept: Kept,
    /// The longest extent, in bytes.
    pub block_bytes: usize,
    /// After this number of bytes, a long `put` commits the extents written so far as staged.
    pub stage_bytes: u64,
}

/// Makes room on full targets for a write. The mover implements it: it is above the writer, which cannot call it directly.
pub(crate) trait MakeRoom: Sync {
    /// Makes room, or waits for it, for a write of `bytes` to one of these tiers that no target has taken since `waiting_since`.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] if the write has waited in vain.
    fn make_room(&self, bytes: usize, tiers: TierSet, waiting_since: Instant) -> Result<()>;

    /// Frees what programs have overwritten on targets in memory, if it may be much.
    fn free_much_garbage(&self) -> Result<()> {
        Ok(())
    }
}
