//! The options of a `put`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use terrace::{Attributes, PutOptions, Store};

use super::filter::Filter;
use crate::wishes::Wishes;

#[derive(Args)]
pub struct Put {
    /// A file, a directory, or - for standard input.
    pub source: PathBuf,
    /// A key. If it ends with /, or SOURCE is a directory, it is the prefix of the keys.
    pub dest: OsString,
    /// Number of replicas [default: the configuration's].
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub replicas: Option<u8>,
    /// Return once this level is reached, or fail [default: wait for all replicas, but succeed if a full tier delays some].
    #[arg(long)]
    pub ack: Option<Ack>,
    /// Skip files by content instead of size and time.
    #[arg(long)]
    pub checksum: bool,
    /// If a file grows while it is read, store it up to the length that it had when it was opened.
    #[arg(long)]
    pub snapshot: bool,
    /// Print what would be written, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub filter: Filter,
    // The last field, because its help heading applies to all flags after it.
    #[command(flatten)]
    pub wishes: Wishes,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Ack {
    /// One replica is written.
    Placed,
    /// All replicas are written.
    Replicated,
    /// All replicas are written and synced to their devices.
    Durable,
}

/// Returns whether any budget may limit the replicas.
pub fn has_budget(store: &Store, put: &Put) -> bool {
    let config = store.config();
    put.wishes.options().budget.is_some()
        || config.store.budget.is_some()
        || config.rules.iter().any(|rule| rule.budget.is_some())
}

/// Returns how an object is put.
pub fn options(put: &Put, key: &[u8], attributes: Option<Attributes>) -> PutOptions {
    let ack = put.ack.map(|ack| match ack {
        Ack::Placed => terrace::Ack::Placed,
        Ack::Replicated => terrace::Ack::Replicated,
        Ack::Durable => terrace::Ack::Durable,
    });
    PutOptions { replicas: put.replicas, ack, element: terrace::element_of(key), attributes, ..put.wishes.options() }
}

/// Returns whether the command acknowledges that all replicas exist.
pub fn is_ack_of_all(put: &Put) -> bool {
    matches!(put.ack, Some(Ack::Replicated | Ack::Durable))
}
