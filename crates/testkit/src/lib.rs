//! Parts that tests share: random numbers, counted skips, waits, golden stores, a Redis server, the examples of guides, and disks
//! that record their writes.

pub mod disk;
pub mod golden;
pub mod guide;
mod random;
mod redis;
mod skip;
mod wait;

pub use random::{Random, noise};
pub use redis::Redis;
pub use skip::{Missing, skip};
pub use wait::wait_until;
