//! The errors of a stream. Each message says how to proceed.

use std::path::PathBuf;

/// The largest number of bytes in a request.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of a stream. A failure at one destination is not among them: the stream retries it, then parks the destination.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] terrace::Error),
    /// The write that several callers shared failed.
    #[error("{0}")]
    Shared(std::sync::Arc<Error>),
    /// An invalid stream name.
    #[error("{0:?} is no name for a stream; take 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.'")]
    BadName(String),
    /// An invalid destination name.
    #[error("the destination {name:?} is not allowed: {reason}")]
    BadDestination {
        /// The name, printed lossily.
        name: String,
        /// The defect.
        reason: String,
    },
    /// A request that the stream does not accept.
    #[error("a request of {bytes} bytes is too long; cut it into parts of at most {most} bytes", most = MAX_REQUEST_BYTES)]
    TooLong {
        /// Bytes of the request.
        bytes: usize,
    },
    /// An invalid producer name or sequence.
    #[error("{0:?} is no name for a producer; take 1 to 255 bytes without NUL")]
    BadProducer(String),
    /// A producer is too far ahead of its lowest missing sequence.
    #[error("producer {producer:?} sent sequence {sequence}, but {missing} is still missing; send that first")]
    TooFar {
        /// The producer, printed lossily.
        producer: String,
        /// The sequence that it sent.
        sequence: u64,
        /// The lowest sequence that is missing.
        missing: u64,
    },
    /// Bytes that are not a framed request.
    #[error("byte {at} of the input begins no request: {reason}")]
    BadFrame {
        /// The offset in the input.
        at: u64,
        /// The defect.
        reason: String,
    },
    /// Several sources for a destination that accepts only one.
    #[error("objects of a bucket are named by their source's order; give each source a stream of its own")]
    OneSource,
    /// A directory that a stream must not pull from.
    #[error("{} cannot be flushed: {reason}", source_path.display())]
    BadSource {
        /// The directory.
        source_path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// A directory that a stream must not write to.
    #[error("{} cannot be flushed to: {reason}", path.display())]
    BadDirectory {
        /// The directory.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// Followed files for a destination that accepts only whole files.
    #[error("what is added to files is delivered to files and keys only, not to buckets")]
    NoTail,
    /// Another process runs the stream.
    #[error("stream {0:?} is run by another process; end that one, or give this stream another name")]
    Running(String),
    /// Another node runs the stream, and delivers to another place.
    #[error(
        "node {node} delivers stream {stream:?} to {place:?}; deliver to the same place, or give this stream another name"
    )]
    OtherPlace {
        /// The stream.
        stream: String,
        /// The node.
        node: String,
        /// Where it delivers to.
        place: String,
    },
    /// Another node has taken over.
    #[error("another node has taken over stream {0:?}, because this process did not answer for a while; run it again")]
    TakenOver(String),
    /// Other nodes have not heard of this process for a while.
    #[error("stream {0:?} waits: the log of the store does not answer, and another node may take over")]
    Unheard(String),
    /// A directory or another source for a stream that several nodes run.
    #[error(
        "only the log of a stream is delivered by several nodes; run its other sources alone, or give them a stream of their own"
    )]
    LogOnly,
    /// A stored record of a stream does not decode.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// The record.
        what: String,
        /// The defect.
        reason: String,
    },
    /// A system call failed.
    #[error("{context}: {cause}")]
    Io {
        /// The operation and its subject.
        context: String,
        /// The system's error.
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
