//! Step 3, pure: which ranks store a chunk, and who sends it there. Every rank computes the same from what all know.

mod deal;
mod holdings;
mod owners;
mod ring;

pub use deal::{Dealt, Shares, by_load, by_rank};
pub use holdings::{Decided, Holdings, Load, Mine, Nodes, Plan, bounds};
pub use owners::{Placed, Sent, own};
pub use ring::{Ring, unordered};
