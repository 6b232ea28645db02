//! A log that several nodes share. Every node appends to it, none owns it, and each carries out all records in the log's order, by
//! `Catalog::follow` of `terrace-catalog`.
//!
//! [`Order`] is such a log, as one node uses it. [`Proposer`] is what one node needs to append exactly once over lost answers. It does
//! no I/O: the caller sends what it returns, and reports the answers. So the same code runs over a real log and in a simulation.
//!
//! The log must offer one operation, which it carries out whole or not at all. *If the node's fence has this incarnation and this
//! number of records, append the record, and count it*; and otherwise say whether the record is in the log ([`Answer`]). The node's
//! fence begins with a new incarnation when it joins, and is removed when it is thought to be dead.
//!
//! With the feature `etcd`, `Etcd` is the log that an etcd cluster keeps. With the feature `model`, `ModelOrder` is one in memory, for tests.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(test, feature = "model"))]
mod model;
mod order;
mod proposer;

#[cfg(feature = "etcd")]
pub use etcd::{Etcd, EtcdAccess, EtcdOptions, LogFormat};
#[cfg(any(test, feature = "model"))]
pub use model::ModelOrder;
pub use order::{LogIdentity, LostLog, OfferedSnapshot, Order, OrderError, Records};
pub use proposer::{Answer, Append, Fate, Proposer, TooLarge, steps_of};
