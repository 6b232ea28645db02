//! Collective dumps of the buffers of many ranks, replicated over the nodes' stores. Natural duplicates count as replicas.

mod ask;
pub mod chunk;
mod confirm;
mod dump;
mod error;
pub mod exchange;
pub mod gc;
mod manifest;
mod names;
mod pack;
mod parcel;
pub mod plan;
pub mod reduce;
pub mod regions;
mod restore;
mod session;
pub mod simulate;
pub mod table;
pub mod transport;

pub use dump::{Dumped, Duplicates, Options, dump};
pub use error::{Error, Lost, Result};
pub use restore::{Restored, Wanted, restore};
