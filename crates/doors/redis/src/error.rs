//! Why a server cannot begin.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The reasons why a server cannot begin.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum RedisServeError {
    /// The address can be reached from other machines.
    #[error(
        "{0} can be reached from other machines, which needs --password-file, so that not everybody may read and write, and \
         --certificate with --private-key, so that nobody overhears them; or listen on 127.0.0.1 and forward the port by ssh"
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
    /// The system refused threads, memory or descriptors.
    #[error("starting to serve: {0}")]
    Start(#[from] io::Error),
    /// The store refused the databases.
    #[error(transparent)]
    Store(#[from] terrace::Error),
    /// The folder of the databases is used for something else.
    #[error("{folder} is no flat key space, so its files are not keys of Redis; name another folder by --folder")]
    NotFlat {
        /// The folder.
        folder: String,
    },
}
