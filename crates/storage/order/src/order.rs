//! [`Order`]: a log that several nodes share, as one node uses it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Answer, Append};

/// A log that several nodes share, as one node uses it. Its calls wait for the log. They may come from several threads, except that one
/// thread reads.
pub trait Order {
    /// Takes this node's fence, and returns its incarnation, a number that no fence had before. `last` is the node's last incarnation, if
    /// its process is known to have ended: what is left of that fence is removed first.
    ///
    /// # Errors
    /// [`OrderError::Taken`] if the node has another fence: another process uses its name, or one that died did so a moment ago.
    fn join(&self, last: Option<u64>) -> Result<u64, OrderError>;

    /// Carries out an append, unless an earlier attempt did.
    ///
    /// # Errors
    /// After every error, the record may be in the log, or come into it later. Only the same append may be sent.
    fn append(&self, append: &Append) -> Result<Answer, OrderError>;

    /// Returns the slot of the last record, as of a moment during the call.
    fn head(&self) -> Result<u64, OrderError>;

    /// Returns the records after this slot that are known here, in order, and at most `most` of them. There may be others: only
    /// [`Order::head`] says where the log ends.
    fn read(&self, after: u64, most: usize) -> Result<Records, OrderError>;

    /// Waits until there may be records after this slot, or the time is over.
    fn wait(&self, after: u64, timeout: Duration) -> Result<(), OrderError>;

    /// Removes all records up to this slot. The caller has snapshots that cover them.
    fn trim(&self, to: u64) -> Result<(), OrderError>;

    /// Tells all nodes of a snapshot of this one, which is durable, instead of any that it told of before.
    fn offer_snapshot(&self, snapshot: &OfferedSnapshot) -> Result<(), OrderError>;

    /// Returns the snapshot of each node that has told of one, by the node's name.
    fn snapshots(&self) -> Result<BTreeMap<String, OfferedSnapshot>, OrderError>;

    /// Returns the incarnation of each node that has a fence, by the node's name.
    fn fences(&self) -> Result<BTreeMap<String, u64>, OrderError>;

    /// Makes this node, with the fence of this incarnation, the keeper, if there is none. Returns whether it is the keeper, who trims the
    /// log. For a moment there may be two, which does no harm.
    fn keep(&self, incarnation: u64) -> Result<bool, OrderError>;

    /// Removes this node's fence, so that the node may join again at once.
    fn leave(&self, incarnation: u64) -> Result<(), OrderError>;

    /// Returns which of the store's logs this is.
    fn identity(&self) -> LogIdentity;
}

/// Which of a store's logs a log is. A store has another one after its first was lost, and was made again from what a node had of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// A random number.
    pub number: u64,
    /// The log in whose place this one was made, if any.
    pub before: Option<LostLog>,
}

/// A log that was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLog {
    /// Its random number.
    pub number: u64,
    /// The slot of its last record that is not lost.
    pub slot: u64,
}

/// The records that follow a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Records {
    /// Each of these has the next slot.
    Next(Vec<Arc<[u8]>>),
    /// Some of them are gone. The node goes on behind a newer snapshot.
    Trimmed,
}

/// A snapshot of a node's catalog, which others may load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedSnapshot {
    /// The slot of the last record that it has.
    pub slot: u64,
    /// The chain of the catalog at that slot.
    pub chain: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The place of the file, in words that the nodes agree on.
    pub place: String,
}

/// Why a call of a shared log failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// The log did not answer in time. The call may have had its effect, or have it later.
    #[error(
        "the shared log does not answer ({reason}); check that most of its servers run and can be reached, and try again"
    )]
    NoAnswer {
        /// The last attempt's error.
        reason: String,
    },
    /// The log's servers have no room for records, nor for fences.
    #[error(
        "the database of etcd at {server} is full; raise its --quota-backend-bytes, or compact and defragment every member; then disarm the alarm (etcdctl alarm disarm), and let a node trim the log"
    )]
    Full {
        /// The address of the server.
        server: String,
    },
    /// Another process has the node's fence.
    #[error(
        "node {node} has joined the shared log already, as incarnation {incarnation}; use another name, or wait until that one has ended"
    )]
    Taken {
        /// The node's name.
        node: String,
        /// The incarnation of its present fence.
        incarnation: u64,
    },
    /// The log lacks records that it had.
    #[error(
        "the shared log has lost records: {what}. Its servers were emptied, or restored from an older copy; stop all nodes, and run `terrace cluster recover` on the one that has most records"
    )]
    RanBack {
        /// The number that became smaller.
        what: String,
    },
    /// The log, or what this store has in it, is not there.
    #[error(
        "there is no shared log of store {store:016x} at {servers}; check the address, and whether the store was ever made there"
    )]
    NoLog {
        /// The store's number.
        store: u64,
        /// The addresses of the servers.
        servers: String,
    },
    /// A newer version of the program has changed the log's format.
    #[error("the shared log has format {found}, and this version knows {known}; use a newer one")]
    Newer {
        /// The log's format.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
    /// A version of the server that must not be used.
    #[error("{server} runs etcd {version}, {reason}; use etcd 3.6 or newer")]
    Server {
        /// The address of the server.
        server: String,
        /// Its version.
        version: String,
        /// The trouble with this version.
        reason: &'static str,
    },
    /// The server has refused a call, and would again.
    #[error("the shared log refuses a call: {reason}")]
    Refused {
        /// The server's message.
        reason: String,
    },
    /// The log holds something that this protocol does not write.
    #[error("the shared log is damaged: {what}; stop all nodes, and find out who else writes to it")]
    Damaged {
        /// The contradiction.
        what: String,
    },
}
