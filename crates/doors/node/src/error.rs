//! [`NodeError`].

use std::io;

use terrace_kit::ListenError;

/// The reasons why a node cannot run.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The node cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A node runs already.
    #[error("another `terrace node` runs on this store already; one is enough")]
    Running,
    /// The system refused a thread or a timer.
    #[error("starting a part of the node: {0}")]
    Start(io::Error),
    /// The file of the targets to serve is wrong, or they cannot be served.
    #[error("{file}: {reason}")]
    Targets {
        /// The file.
        file: String,
        /// The reason, with its place.
        reason: String,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] terrace::Error),
}
