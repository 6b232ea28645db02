//! Why a server cannot listen.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reasons why a server cannot listen.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can be reached from other machines.
    #[error(
        "{0} can be reached from other machines, and everybody who reaches it reads and writes everything: 9P has no \
         authentication; listen on 127.0.0.1 and forward the port by ssh, or say --trust-network"
    )]
    Open(SocketAddr),
    /// The path belongs to a file that is not a socket.
    #[error("{0} is there already and is no socket; name another path")]
    InTheWay(PathBuf),
    /// The system refused the address.
    #[error("listening on {address}: {source}; is it in use, or kept for root? Name another")]
    Refused {
        /// The address.
        address: String,
        /// The system's error.
        source: io::Error,
    },
}
