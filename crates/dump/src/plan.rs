//! Step 3, pure: which ranks store a chunk, and who sends it there. Every rank computes the same from what all know.

mod holdings;
mod order;
mod owners;
mod ring;

pub use holdings::{Holdings, Load, Nodes, Plan, bounds, leaf};
pub use order::{by_load, largest_receive, unordered};
pub use owners::{Placed, Sent, own};
pub use ring::Ring;
