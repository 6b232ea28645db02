//! The errors of dumps and restores.

use std::{fmt, io};

/// The result of a dump or a restore.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An option that differs between ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The option.
    pub option: String,
    /// Each value and the ranks that have it, in order; the value of most ranks first. The value is `None` for ranks
    /// that do not know the option.
    pub values: Vec<(Option<String>, Vec<u32>)>,
}

/// The errors of a dump or a restore.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node's store failed.
    #[error(transparent)]
    Store(#[from] terrace::Error),
    /// A rank died, or left while other ranks needed it.
    #[error("rank {rank} died; the dump that was being made does not exist, start again and restore the one before")]
    Died {
        /// The rank.
        rank: u32,
    },
    /// The transport failed.
    #[error("the transport failed while {what}: {reason}; the ranks must be started again")]
    Transport {
        /// The operation that failed.
        what: &'static str,
        /// The transport's message.
        reason: String,
    },
    /// Another rank failed, so this rank's work was abandoned.
    #[error("rank {rank}: {reason}")]
    Elsewhere {
        /// The rank.
        rank: u32,
        /// The message of its error.
        reason: String,
    },
    /// The ranks and stores do not match, or an argument is invalid.
    #[error("{0}")]
    Refused(String),
    /// The ranks have different arguments.
    #[error("the ranks are asked for different things: {}; ask all for the same", differ(.0))]
    Differ(Vec<Difference>),
    /// No complete dump has this name or version.
    #[error("there is no dump {name:?}{}{}: {known}", of(*version), places(archive.as_deref()))]
    NotFound {
        /// The dump's name.
        name: String,
        /// The requested version; `None` stands for the newest.
        version: Option<u32>,
        /// The archive that was looked at, besides the nodes' stores.
        archive: Option<String>,
        /// The existing versions, as text.
        known: String,
    },
    /// A stored or received record does not decode.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// The record that does not decode.
        what: String,
        /// The reason.
        reason: String,
    },
    /// An archive failed.
    #[error("{what}: {cause}; look after that place, and run it again")]
    Archive {
        /// The operation that failed.
        what: String,
        /// The system's error. The message of this error has it, so it is not its `source()`.
        cause: io::Error,
    },
    /// Too many stores are lost.
    #[error("{} of the dump cannot be restored from the stores that are here: {}", bytes(.0), ranges(.0))]
    Lost(Vec<Lost>),
}

/// A range of a rank's buffer that no store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lost {
    /// The rank that dumped it.
    pub rank: u32,
    /// The index of its buffer.
    pub buffer: u32,
    /// The first byte lost.
    pub start: u64,
    /// The first byte after it that is not.
    pub end: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}, buffer {}, bytes {}..{}", self.rank, self.buffer, self.start, self.end)
    }
}

/// An error message lists at most this many ranges.
const MAX_NAMED_RANGES: usize = 8;

fn of(version: Option<u32>) -> String {
    version.map(|version| format!(" of version {version}")).unwrap_or_default()
}

fn places(archive: Option<&str>) -> String {
    match archive {
        Some(archive) => format!(", neither in the nodes' stores nor in {archive}; its versions that are there"),
        None => "; its versions that are here".to_owned(),
    }
}

fn differ(differences: &[Difference]) -> String {
    differences.iter().map(Difference::to_string).collect::<Vec<_>>().join("; ")
}

fn bytes(lost: &[Lost]) -> String {
    format!("{} bytes", lost.iter().map(|range| range.end - range.start).sum::<u64>())
}

fn ranges(lost: &[Lost]) -> String {
    let named: Vec<String> = lost.iter().take(MAX_NAMED_RANGES).map(Lost::to_string).collect();
    let more = if lost.len() > MAX_NAMED_RANGES {
        format!("; and {} ranges more", lost.len() - MAX_NAMED_RANGES)
    } else {
        String::new()
    };
    named.join("; ") + &more
}

impl Error {
    /// Returns whether the transport failed, so that the ranks cannot communicate any more.
    pub fn is_transport(&self) -> bool {
        matches!(self, Error::Died { .. } | Error::Transport { .. })
    }

    pub(crate) fn damaged(what: impl Into<String>, reason: impl fmt::Display) -> Error {
        Error::Damaged { what: what.into(), reason: reason.to_string() }
    }
}
