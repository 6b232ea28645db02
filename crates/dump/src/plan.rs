//! Step 3, pure: which ranks store a chunk, and who sends it there. Every rank computes the same from what all know.

mod order;
mod owners;
mod ring;

pub use order::{by_load, largest_receive, unordered};
pub use owners::{Placed, Sent, own};
pub use ring::Ring;
