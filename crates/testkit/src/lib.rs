//! What tests share: random numbers, skips that are counted, golden stores, and disks that record what is written to them.

pub mod disk;
pub mod golden;
mod random;
mod skip;

pub use random::Random;
pub use skip::{Missing, skip};
