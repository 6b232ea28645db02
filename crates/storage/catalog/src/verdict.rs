//! [`Verdict`]: the outcome of a step of a shared log.

use serde::{Deserialize, Serialize};

/// The decision about a step of a proposal. All nodes agree on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It was carried out as this commit. A session that begins or ends has no commit, and reports the last one.
    Done(u64),
    /// An expectation of it does not hold. Nothing has changed.
    Conflict,
    /// An object that it expects does not exist. Nothing has changed.
    NotFound,
    /// The session has ended, or never began. Nothing has changed.
    NoSession,
    /// Its number is too old: whether it was carried out is not known any more.
    Forgotten,
    /// It names a frame that was appended before the node of the frame's target began again. Nothing has changed; append it again.
    Stale,
    /// A node's own step does not hold any more. Nothing has changed.
    Refused,
}
