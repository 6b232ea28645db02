//! Parts that tests share: random numbers, counted skips, golden stores, the examples of guides, and disks that record their writes.

pub mod disk;
pub mod golden;
pub mod guide;
mod random;
mod skip;

pub use random::Random;
pub use skip::{Missing, skip};
