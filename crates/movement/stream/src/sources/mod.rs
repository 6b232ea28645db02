//! Sources other than a stream's log.

mod directory;
#[cfg(feature = "redis")]
mod redis;
mod tail;

pub(crate) use directory::{Directory, all_tallies};
pub use directory::{Tally, Watch};
#[cfg(feature = "redis")]
pub use redis::Redis;
pub(crate) use tail::Tail;
