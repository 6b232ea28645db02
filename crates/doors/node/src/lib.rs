//! The daemon of a store: `terrace node`.
//!
//! [`Node::begin`] keeps a store open, so that its background work goes on while no other process runs: pending replicas,
//! eviction, repair, freed space. It scrubs the store on a schedule, tidies up after other processes, and serves the health
//! and the metrics of the store by HTTP. Other processes use the store as they do without it. [`Node::end`] stops it.
//!
//! [`MetricsServer::begin`] serves the metrics of another server.
//!
//! [`Targets::begin`] serves directories of this machine to the stores of others, with or without a store here.

mod answers;
mod counted;
mod error;
mod held;
mod http;
mod metrics;
mod node;
mod page;
mod report;
mod streams;
mod targets;
mod tending;
mod upkeep;

pub use counted::MetricsServer;
pub use error::NodeError;
pub use node::{Node, Options};
pub use targets::Targets;
