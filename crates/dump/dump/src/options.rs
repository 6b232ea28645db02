//! The options and the result of a dump.

use std::num::NonZeroU32;

use crate::chunk::Chunking;
use crate::exchange::Moved;
use crate::terms::Terms;
use crate::{Error, Result};

/// The last version that a dump can have. A version above it would leave no number for the one that follows.
pub(crate) const MAX_VERSION: u32 = u32::MAX - 1;

/// Which duplicates of chunks a dump leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// None: every chunk is stored and replicated.
    Kept,
    /// Duplicates within a rank.
    Local,
    /// Duplicates within and across ranks: natural copies count as replicas.
    Collective,
}

/// The options of a dump.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of nodes that store each chunk, 1 to 16; all nodes, if there are fewer.
    pub replicas: u32,
    /// How buffers are divided into chunks.
    pub chunking: Chunking,
    /// The duplicates that are left out.
    pub duplicates: Duplicates,
    /// Whether partners are chosen by load; otherwise they are chosen by rank.
    pub by_load: bool,
    /// The maximum number of chunks that a rank asks others about and tells others of; 2^17 by default, as in AC-FTE.
    pub table: usize,
    /// The length in bytes of each of the two windows that receive the chunks of other ranks.
    pub window: usize,
    /// The version to create; `None` creates the one after the newest.
    pub version: Option<u32>,
    /// A version that the created one follows, too: the newest one of an archive to which versions flow.
    pub after: Option<u32>,
    /// The number of newest versions that stay, the new one included; the older ones are dropped. `None` keeps all.
    pub keep: Option<NonZeroU32>,
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
            after: None,
            keep: None,
        }
    }
}

impl Options {
    /// Returns all options as terms, because they must be the same on all ranks.
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
            .with("after", self.after.map_or_else(|| "none".to_owned(), |after| after.to_string()))
            .with("keep", self.keep.map_or_else(|| "all versions".to_owned(), |keep| keep.to_string()))
    }

    /// Checks the options, as [`dump`](crate::dump) does.
    ///
    /// # Errors
    /// [`Error::Refused`] if an option is invalid.
    pub fn check(&self) -> Result<()> {
        self.chunking.check()?;
        if !(1..=16).contains(&self.replicas) {
            return Err(Error::Refused(format!("{} replicas; choose 1 to 16", self.replicas)));
        }
        check_window(self.window, self.chunking.longest())
    }
}

/// # Errors
/// [`Error::Refused`] if a window is shorter than `least` bytes: an exchange would then take a round for every few
/// bytes.
pub(crate) fn check_window(window: usize, least: usize) -> Result<()> {
    match window < least {
        true => Err(Error::Refused(format!(
            "a window of {window} bytes; choose {least} bytes, which the longest chunk takes, or more; usually 32 MiB"
        ))),
        false => Ok(()),
    }
}

/// The result of a dump on one rank.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumped {
    /// The dump's version.
    pub version: u32,
    /// The number of nodes that have each chunk.
    pub copies: u32,
    /// Bytes of this rank's buffers.
    pub bytes: u64,
    /// Bytes of its distinct chunks.
    pub distinct: u64,
    /// Bytes of chunks that it put into packs, both its own and received ones.
    pub stored: u64,
    /// The data that the exchange of chunks moved.
    pub chunks: Moved,
    /// The data that questions and manifests moved.
    pub records: Moved,
    /// The number of older versions that were dropped.
    pub dropped: u32,
    /// Bytes that are free again for that on the tiers of this node's store; zero on all ranks of a node but one.
    pub freed: u64,
}
