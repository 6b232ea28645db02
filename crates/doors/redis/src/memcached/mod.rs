//! memcached's text protocol, over the same values as Redis's: an item is a string of database 0.
//!
//! [`MemcachedReader`] takes commands out of the bytes of a connection, [`carry_out`] carries them out in a pass. Worker, executor, pass
//! and session are those of Redis.

mod carry_out;
mod command;
mod item_expiry;
mod parse;
mod reader;
mod statistics;

pub use carry_out::carry_out;
pub use command::{ItemDeed, MemcachedCommand, StoreWay};
pub use reader::{MemcachedReader, TooLongLine};

/// The version that clients are told: the newest one without meta commands, which this server does not have.
const MEMCACHED_VERSION: &str = "1.5.22";
