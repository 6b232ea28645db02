//! Sources besides a stream's log.

mod directory;
#[cfg(feature = "redis")]
mod redis;

pub use directory::Directory;
#[cfg(feature = "redis")]
pub use redis::Redis;
