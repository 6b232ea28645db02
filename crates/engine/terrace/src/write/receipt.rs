//! Receipts of writes.

use std::ops::Range;

/// Replicas that are still to be made on one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwedTo {
    /// The tier's name.
    pub tier: String,
    /// The target's path or name.
    pub target: String,
    /// How many replicas of extents.
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
    /// Replicas that each extent is to have here.
    pub want: u8,
    /// Replicas that were asked for.
    pub asked: u8,
    /// As many of these as there are failure domains for; more than `want` where the budget pays for no more.
    pub possible: u8,
    /// The bytes that were written lie in this range of the object.
    pub range: Range<u64>,
    /// The least number of replicas of any extent in this range, when the call or the last [`Store::wait`](crate::Store::wait)
    /// returned. The same as `want` if there are no bytes.
    pub have: u8,
    /// Whether all of it survives a loss of power, as was asked for by `durable`. Without that it will soon: the
    /// background sync makes it durable, but has not told yet.
    pub durable: bool,
    /// Replicas that were owed when the call returned.
    pub owed: u64,
    /// Where these are to be.
    pub owed_to: Vec<OwedTo>,
    /// Bytes written, before encoding and replication.
    pub bytes: u64,
    /// Bytes of payload that the replicas made by the call itself take.
    pub stored: u64,
    /// Whether a first replica is on a target with a higher latency than was asked for: none that works is as quick.
    pub is_slow: bool,
}
