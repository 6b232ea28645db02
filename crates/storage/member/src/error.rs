//! The errors of a member.

use std::path::PathBuf;
use std::time::Duration;

use terrace_order::{OrderError, TooLarge};

/// Why a call of a [`Member`](crate::Member) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// Nobody knows yet whether a change was carried out. Only the same change, with the same number, may be asked for again.
    #[error(
        "after {waited:?} it is not known whether the change was carried out, because the shared log does not answer; ask for it again, and it is carried out once"
    )]
    Unknown {
        /// The number of the change in its session.
        number: u64,
        /// The time that the call has waited.
        waited: Duration,
    },
    /// Nobody knows whether a change was carried out, and nobody can ask for it again.
    #[error(
        "it is not known whether the change was carried out: {reason}; look whether it was before you ask for it again"
    )]
    Undecided {
        /// The trouble.
        reason: String,
    },
    /// The shared log does not answer.
    #[error(
        "the shared log did not answer within {waited:?}; check that most of its servers can be reached, and try again"
    )]
    Silent {
        /// The time that the call has waited.
        waited: Duration,
    },
    /// No node of this machine answers.
    #[error("no node answers at {}: {cause}; start `terrace node`, or look whether it hangs", path.display())]
    NoNode {
        /// Its socket.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The node refuses what a client asks for.
    #[error("the node refuses: {reason}")]
    Refused {
        /// Its reason, and what to do.
        reason: String,
    },
    /// The change does not fit into a record.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A snapshot for other nodes could not be written.
    #[error("writing the snapshot {}: {cause}; look whether the folder is full or away", path.display())]
    Snapshot {
        /// Its file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The system starts no thread.
    #[error("cannot start a thread: {0}")]
    NoThread(std::io::Error),
    /// The member has stopped for good: what it would have done next was not safe.
    #[error("this node follows the shared log no more: {reason}")]
    Halted {
        /// The reason, and what to do.
        reason: String,
    },
    /// The log refuses a call.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] terrace_catalog::Error),
}

/// The result of a call of a member.
pub type Result<T, E = MemberError> = std::result::Result<T, E>;
