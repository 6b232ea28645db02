//! Writing: bytes become extents, extents become frames. A commit of the caller's makes them visible.

mod draft;
mod kept;
mod plain;
mod receipt;

use std::sync::Arc;
use std::time::Instant;

use terrace_catalog::Catalog;

pub(crate) use draft::{Draft, Update};
pub(crate) use kept::Kept;
pub use receipt::{OwedTo, Receipt};

use crate::Result;
use crate::place::Planning;

/// Writes the frames of objects.
pub(crate) struct Writer {
    pub catalog: Arc<Catalog>,
    pub planning: Arc<Planning>,
    /// Raw bytes of what is owed, for the mover.
    pub kept: Kept,
    /// The longest extent, in bytes.
    pub block: usize,
    /// A long `put` records its extents each time this number of bytes has gathered.
    pub stage_bytes: u64,
}

/// Makes room on full targets for a write. The mover does it, which stands above the writer.
pub(crate) trait MakeRoom: Sync {
    /// Makes room, or waits for it, on behalf of a write that no target took since `waiting_since`.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] where the write has waited in vain.
    fn make_room(&self, waiting_since: Instant) -> Result<()>;
}
