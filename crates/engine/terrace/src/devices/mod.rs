//! The store's tiers and targets, as this process uses them.

mod device;
mod growing;
mod link;
mod monitor;
mod once_encoded;
mod space;
mod speeds;
pub mod targets;
mod tiers;
mod trouble;

pub use device::Device;
pub use growing::Tiers;
pub use once_encoded::OnceEncoded;
pub use speeds::{AssumedTimes, MAX_QUEUE_SECONDS};
pub use tiers::{LEARNED_FILE, TierList};
