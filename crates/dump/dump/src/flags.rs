//! The flags of dumps and restores, as `terrace` and `terrace-dump` both take them.

use std::str::FromStr;

use clap::Args;

use crate::chunk::Chunking;
use crate::{Duplicates, Options};

/// What `dump` takes.
#[derive(Args, Clone, Debug)]
pub struct DumpFlags {
    /// The dump's name; each dump of that name is a version of it.
    pub name: String,
    /// A file for each rank, or one with {rank} in its name.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// On how many nodes each chunk is to be.
    #[arg(long, default_value_t = Options::default().replicas)]
    pub replicas: u32,
    /// Bytes of a chunk.
    #[arg(long, default_value_t = 4096)]
    pub chunk: u32,
    /// Cut where the content says so, at about --chunk bytes.
    #[arg(long)]
    pub by_content: bool,
    /// What of equal chunks is left out: `collective`, or for comparison `local` or `none`.
    #[arg(long, default_value = "collective")]
    pub duplicates: Duplicates,
    /// Choose partners by rank instead of by load, for comparison.
    #[arg(long)]
    pub static_partners: bool,
    /// Bytes of each of two windows for what others send; a chunk must fit.
    #[arg(long, default_value_t = Options::default().window)]
    pub window: usize,
    /// The version to make; otherwise the next.
    #[arg(long)]
    pub version: Option<u32>,
}

/// What `restore` takes.
#[derive(Args, Clone, Debug)]
pub struct RestoreFlags {
    /// The dump's name.
    pub name: String,
    /// A file for each rank that dumped, or one with {rank} in its name.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// The version; otherwise the newest.
    #[arg(long)]
    pub version: Option<u32>,
    /// Restore what is left where a part is lost; what is lost is zeros.
    #[arg(long)]
    pub partial: bool,
}

impl DumpFlags {
    /// What they say of how to dump.
    pub fn options(&self) -> Options {
        Options {
            replicas: self.replicas,
            chunking: if self.by_content { Chunking::Content(self.chunk) } else { Chunking::Fixed(self.chunk) },
            duplicates: self.duplicates,
            by_load: !self.static_partners,
            window: self.window,
            version: self.version,
            ..Options::default()
        }
    }
}

impl FromStr for Duplicates {
    type Err = String;

    fn from_str(text: &str) -> Result<Duplicates, String> {
        Ok(match text {
            "collective" => Duplicates::Collective,
            "local" => Duplicates::Local,
            "none" => Duplicates::Kept,
            _ => return Err(format!("{text:?} is not collective, local or none")),
        })
    }
}
