//! Why a server cannot begin.

use std::io;

use terrace_kit::ListenError;

/// The reasons why a server cannot begin.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum RedisServeError {
    /// The server cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
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
