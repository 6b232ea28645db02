//! [`NodeError`].

use std::io;
use std::net::SocketAddr;

/// The reasons why a node cannot run.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The address can be reached from other machines.
    #[error(
        "{0} can be reached from other machines, and everybody who reaches it reads the store's state: there is no \
         authentication; listen on 127.0.0.1 and forward the port by ssh, or say --trust-network"
    )]
    Open(SocketAddr),
    /// Other machines can reach the address of the metrics.
    #[error(
        "{0} can be reached from other machines, and everybody who reaches it reads the metrics: there is no authentication; \
         show them on 127.0.0.1, and forward the port by ssh"
    )]
    OpenMetrics(SocketAddr),
    /// The system refused the address.
    #[error(
        "listening on {address}: {source}; is it in use, or kept for root? Name another by --listen, or for metrics by --metrics"
    )]
    Refused {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
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
