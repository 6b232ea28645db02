//! The arguments of `terrace get`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::filter::Filter;
use crate::range::{Range, parse_range};

#[derive(Args)]
pub struct Get {
    /// A key, or the prefix of many keys.
    pub source: OsString,
    /// A file, a directory, or - for standard output.
    pub dest: PathBuf,
    /// Copy bytes A to B of one object; B itself is left out.
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    pub range: Option<Range>,
    /// Skip files by content instead of size and time.
    #[arg(long)]
    pub checksum: bool,
    /// Print what would be written, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub filter: Filter,
}
