//! Collective dumps of the buffers of many ranks, replicated over the nodes' stores. Natural duplicates count as replicas.

pub mod chunk;
mod error;
pub mod exchange;
mod parcel;
pub mod plan;
pub mod reduce;
pub mod table;
pub mod transport;

pub use error::{Error, Lost, Result};
