//! Receipts of writes.

use std::ops::Range;

/// Pending replicas on one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedTo {
    /// The tier's name.
    pub tier: String,
    /// The target's path or name.
    pub target: String,
    /// The number of pending replicas of extents.
    pub replicas: u64,
}

/// The result of a write: the level that it has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The key written to.
    pub key: Vec<u8>,
    /// The object's number.
    pub object: u64,
    /// The commit that made the write visible.
    pub generation: u64,
    /// The number of replicas that each extent should have.
    pub want: u8,
    /// The number of replicas that was asked for.
    pub asked: u8,
    /// As many of `asked` as there are failure domains for. It exceeds `want` if the budget pays for fewer.
    pub possible: u8,
    /// Whether more would be possible if replicas in memory counted. They do not if the write has to be durable.
    pub memory_left_out: bool,
    /// The range of the object that was written.
    pub range: Range<u64>,
    /// The least number of replicas of any extent in this range, when the call or the last [`Store::wait`](crate::Store::wait)
    /// returned. The same as `want` if there are no bytes.
    pub have: u8,
    /// Whether the write was made durable, as [`Ack::Durable`](crate::Ack::Durable) asks for. If it was not, the background
    /// thread makes it durable soon, but this does not change.
    pub durable: bool,
    /// The number of replicas that were pending when the call returned.
    pub owed: u64,
    /// The targets of these replicas.
    pub owed_to: Vec<OwedTo>,
    /// Bytes written, before encoding and replication.
    pub bytes: u64,
    /// Payload bytes of the replicas that the call itself made.
    pub stored: u64,
    /// Whether a first replica is on a target with a higher latency than was asked for, because no working target is as
    /// fast.
    pub is_slow: bool,
}
