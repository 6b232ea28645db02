//! How to dump, and what came of it.

use crate::chunk::Chunking;
use crate::exchange::Moved;

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
