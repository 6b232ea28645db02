//! What can go wrong with a stream, and what to do next.

use std::path::PathBuf;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every way in which a stream can fail. What goes wrong at one destination is no error of the stream: it is retried, then parked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] terrace::Error),
    /// What several callers asked for at once failed.
    #[error("{0}")]
    Shared(std::sync::Arc<Error>),
    /// A name that no stream may have.
    #[error("{0:?} is no name for a stream; take 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.'")]
    BadName(String),
    /// A destination's name that is not allowed.
    #[error("the destination {name:?} is not allowed: {reason}")]
    BadDestination {
        /// The name, printed lossily.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A request that cannot be accepted.
    #[error("a request of {bytes} bytes is too long; cut it into parts of at most {most} bytes", most = crate::MOST_BYTES)]
    TooLong {
        /// Bytes of the request.
        bytes: usize,
    },
    /// A producer's identity that is not allowed.
    #[error("{0:?} is no name for a producer; take 1 to 255 bytes without NUL")]
    BadProducer(String),
    /// A producer went too far ahead of what is missing.
    #[error("producer {producer:?} sent sequence {sequence}, but {missing} is still missing; send that first")]
    TooFar {
        /// The producer, printed lossily.
        producer: String,
        /// What it sent.
        sequence: u64,
        /// The lowest sequence that never came.
        missing: u64,
    },
    /// Bytes that are no framed request.
    #[error("byte {at} of the input begins no request: {reason}")]
    BadFrame {
        /// Where in the input.
        at: u64,
        /// What is wrong there.
        reason: String,
    },
    /// Several sources for a destination that takes one.
    #[error("objects of a bucket are named by their source's order; give each source a stream of its own")]
    OneSource,
    /// A directory that no stream may pull from.
    #[error("{} cannot be flushed: {reason}", source_path.display())]
    BadSource {
        /// The directory.
        source_path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A directory that no stream may write to.
    #[error("{} cannot be flushed to: {reason}", path.display())]
    BadDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Files that grow, to a destination that takes whole files.
    #[error("what is added to files is delivered to files and keys only, not to buckets")]
    NoTail,
    /// Another process runs the stream.
    #[error("stream {0:?} is run by another process; end that one, or give this stream another name")]
    Running(String),
    /// What is stored of a stream does not decode.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// Which record.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The system refused something.
    #[error("{context}: {cause}")]
    Io {
        /// What was being done, to what.
        context: String,
        /// The system's words.
        cause: std::io::Error,
    },
}

impl Error {
    pub(crate) fn io(context: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let context = context.into();
        move |cause| Error::Io { context, cause }
    }

    pub(crate) fn damaged(what: impl Into<String>, reason: impl ToString) -> Error {
        Error::Damaged { what: what.into(), reason: reason.to_string() }
    }
}
