//! How to dump, and what came of it.

use crate::chunk::Chunking;
use crate::exchange::Moved;
use crate::terms::Terms;
use crate::{Error, Result};

/// What of equal chunks is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Nothing: every chunk is stored and replicated.
    Kept,
    /// What a rank has twice.
    Local,
    /// Also what other ranks have: natural copies count as replicas.
    Collective,
}

/// How to dump.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// On how many nodes each chunk is to be; where there are fewer nodes, on all. 1 to 16.
    pub replicas: u32,
    /// How buffers are cut.
    pub chunking: Chunking,
    /// What is left out.
    pub duplicates: Duplicates,
    /// Whether partners are chosen by load, or by their ranks only.
    pub by_load: bool,
    /// The most chunks that a rank asks others about, and tells others of; 2^17, as in AC-FTE.
    pub table: usize,
    /// Bytes of each of two windows, in which chunks of others come in.
    pub window: usize,
    /// The version to make; none: the one after the newest.
    pub version: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            replicas: 3,
            chunking: Chunking::default(),
            duplicates: Duplicates::Collective,
            by_load: true,
            table: 1 << 17,
            window: 32 << 20,
            version: None,
        }
    }
}

impl Options {
    /// What must be the same on all ranks: everything.
    pub(crate) fn terms(&self) -> Terms {
        let chunking = match self.chunking {
            Chunking::Fixed(size) => format!("{size} bytes"),
            Chunking::Content(size) => format!("about {size} bytes by content"),
        };
        let duplicates = match self.duplicates {
            Duplicates::Kept => "none",
            Duplicates::Local => "local",
            Duplicates::Collective => "collective",
        };
        Terms::of("dump")
            .with("replicas", self.replicas)
            .with("chunk", chunking)
            .with("duplicates", duplicates)
            .with("static partners", if self.by_load { "no" } else { "yes" })
            .with("table", self.table)
            .with("window", self.window)
            .with("version", self.version.map_or_else(|| "the next".to_owned(), |version| version.to_string()))
    }

    /// # Errors
    /// [`Error::Refused`] where one of them cannot be used.
    pub(crate) fn check(&self) -> Result<()> {
        self.chunking.check()?;
        if !(1..=16).contains(&self.replicas) {
            return Err(Error::Refused(format!("{} replicas; choose 1 to 16", self.replicas)));
        }
        check_window(self.window, self.chunking.longest())
    }
}

/// # Errors
/// [`Error::Refused`] where a window is shorter than `least` bytes: an exchange would take a round for each few bytes.
pub(crate) fn check_window(window: usize, least: usize) -> Result<()> {
    match window < least {
        true => Err(Error::Refused(format!(
            "a window of {window} bytes; choose {least} bytes, which the longest chunk takes, or more; usually 32 MiB"
        ))),
        false => Ok(()),
    }
}

/// What a dump has done, on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// The dump's version.
    pub version: u32,
    /// On how many nodes each chunk is.
    pub copies: u32,
    /// Bytes of this rank's buffers.
    pub bytes: u64,
    /// Bytes of its distinct chunks.
    pub distinct: u64,
    /// Bytes of chunks that it has put into packs, its own and others'.
    pub stored: u64,
    /// What chunks have moved.
    pub chunks: Moved,
    /// What asking and manifests have moved.
    pub records: Moved,
}
