//! Terrace's format: the meaning of bytes, without any I/O. `docs/format.md` describes it byte by byte.
//!
//! [`frame`]s are extents as stored on targets. Records hold the catalog's data about objects. A [`Change`] is the only way
//! in which a store's state changes, and the commit log is a list of changes.

mod change;
pub mod frame;
mod ids;
pub mod key;
mod known_attributes;
mod place;
mod proposal;
mod reach;
mod record;

pub use change::{Change, Edit, Expect, NewExtent, Voids};
pub use ids::Ids;
pub use key::KeyError;
pub use known_attributes::{DIGEST_PREFIX, ETAG_DIGEST, EXPIRY_ATTRIBUTE, ORIGIN_ATTRIBUTE};
pub use place::{FRAME_ALIGNMENT, PLAIN_SEGMENT_BIT, Place};
pub use proposal::{Proposal, ProposalError, Step};
pub use reach::{REACH_FILE, Reach};
pub use record::{Attributes, Extent, Kind, Object, Owed, Replica, Source, TargetId, Task, frames};
