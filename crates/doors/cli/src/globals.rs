//! The flags that every command takes.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

/// The flags that every command takes.
#[derive(Args)]
pub struct Globals {
    /// Use the store in this directory [default: TERRACE_STORE, or terrace in the user's data directory].
    // Not by `env`: a variable that is empty counts as none, but an empty option is a mistake.
    #[arg(long, global = true, help_heading = "Global options", value_name = "DIR")]
    store: Option<OsString>,
    /// Print the result as JSON.
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Print nothing but errors.
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Log what happens; -vv logs more. TERRACE_LOG takes filters, such as terrace=debug.
    #[arg(short, long, global = true, help_heading = "Global options", action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Globals {
    /// The store's directory.
    pub fn store(&self) -> Result<PathBuf> {
        match &self.store {
            Some(dir) if dir.is_empty() => bail!("--store names no directory; leave it out for the default store"),
            Some(dir) => Ok(dir.into()),
            None => match std::env::var_os("TERRACE_STORE").filter(|dir| !dir.is_empty()) {
                Some(dir) => Ok(dir.into()),
                None => default_store(),
            },
        }
    }
}

/// The store that is used where none is named.
pub fn default_store() -> Result<PathBuf> {
    // As the XDG specification has it, a path that is not absolute is as good as none.
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
    Ok(data.context("no store is named, and no home directory is known; give --store DIR")?.join("terrace"))
}
