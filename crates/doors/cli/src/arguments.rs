//! The commands and their flags: help and parsing come from here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use globset::{Glob, GlobMatcher};
use terrace::WhatIf;
use terrace_dump::flags::RestoreFlags;

use crate::dataset::Dataset;
use crate::dump::Dump;
use crate::flush::Flush;
use crate::serve::Serve;
use crate::simulate::Simulate;
use crate::view::View;
use crate::wishes::Wishes;

const GROUPS: &str = "\
Daily:  put get cat ls rm mv check sync
Look:   locate explain hot stat status tiers top predictor
Move:   flush stage evict drain tune mount serve
Care:   init profile scrub repair prune rebuild destroy simulate
Ranks:  dump restore  dump gc|ls
Views:  dataset check|fmt|explain|import|add|edit|ls|show|repair|rm  view read|write|convert|export

`terrace completions SHELL` and `terrace manual DIR` make a shell and `man` know all this.

Exit codes: 0 ok, 1 found bad or failed, 2 usage; 130 and 143 after Ctrl-C and SIGTERM.";

/// Replicas of your data on every tier, kept right.
#[derive(Parser)]
#[command(name = "terrace", version, after_help = GROUPS)]
pub struct Arguments {
    /// The store's directory; without it, one in the user's data directory.
    #[arg(long, global = true, env = "TERRACE_STORE", value_name = "DIR")]
    store: Option<OsString>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Print errors only.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say what is done; twice, more. TERRACE_LOG takes filters, such as terrace=debug.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// The store's directory.
    pub fn store(&self) -> Result<PathBuf> {
        match &self.store {
            Some(dir) if !dir.is_empty() => Ok(dir.into()),
            _ => default_store(),
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

/// Each kind of command has a type of its own, so that none can reach what does nothing with it.
#[derive(Subcommand)]
pub enum Command {
    #[command(flatten)]
    Stored(StoreCommand),
    /// Dump files of MPI ranks under mpirun, replicated over the nodes' stores; `dump gc` drops old versions.
    Dump(Dump),
    /// Restore files that MPI ranks dumped, under mpirun.
    Restore(RestoreFlags),
    /// Show the objects as files in a directory, until it is unmounted.
    Mount(Mount),
    /// Serve the objects, and datasets' views, by a protocol of the network.
    #[command(subcommand)]
    Serve(Serve),
    /// Show the tiers, add some or remove one.
    Tiers {
        #[command(subcommand)]
        change: Option<Tiers>,
    },
    /// Make a store.
    Init {
        /// Its tiers and defaults; without it tiers are found on this machine.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Measure what encodings and tiers do on this machine: less than 20 seconds.
    Profile(Profile),
    /// Compare policies on a described cluster, in virtual time: seconds, bytes in each tier, cost and energy.
    Simulate(Simulate),
    /// Show how well encodings are predicted: ratio and speeds, as predicted and as they came.
    Predictor {
        /// Begin anew with what `profile` or another store has learned.
        #[arg(long, value_name = "FILE")]
        take: Option<PathBuf>,
    },
    /// Make the catalog from the commit log, and mend the log from its copies. Refuses where commits are missing.
    Rebuild {
        /// Go on where commits are missing: keep what the log still tells, and offer what else is whole on the targets as
        /// salvaged/NUMBER. Deleted objects may be among them.
        #[arg(long)]
        salvage: bool,
    },
    /// Destroy a store: all that it has put on its tiers, then its own directory. Refuses where it holds objects, unless forced.
    Destroy {
        /// Destroy it with all objects that it holds, and where a target is away and would be left behind.
        #[arg(long)]
        force: bool,
        /// Only say what would be destroyed.
        #[arg(long)]
        dry_run: bool,
    },
    /// Declare datasets, which are seen in many layouts.
    #[command(subcommand)]
    Dataset(Dataset),
    /// Read and write datasets in any of their layouts.
    #[command(subcommand)]
    View(View),
    /// Print the completions of a shell.
    #[command(hide = true)]
    Completions { shell: clap_complete::Shell },
    /// Write the manual's pages into a directory.
    #[command(hide = true)]
    Manual { directory: PathBuf },
}

/// What is done with an open store.
#[derive(Subcommand)]
pub enum StoreCommand {
    /// Copy a file, a directory's contents or stdin (-) into the store.
    Put(Put),
    /// Copy an object or all below a prefix to a file, a directory or stdout (-).
    Get(Get),
    /// Write an object to stdout.
    Cat {
        key: OsString,
        /// Bytes A up to, not including, B.
        #[arg(long, value_name = "A-B", value_parser = range)]
        range: Option<Range>,
    },
    /// List keys.
    Ls {
        prefix: Option<OsString>,
        /// Kinds and modes, lengths, times (UTC) and numbers of replicas, too.
        #[arg(short, long)]
        long: bool,
    },
    /// Delete an object.
    Rm {
        key: OsString,
        /// All at and below the key.
        #[arg(short, long)]
        recursive: bool,
        /// Only say what would be deleted.
        #[arg(long)]
        dry_run: bool,
    },
    /// Rename an object; no bytes move.
    Mv { from: OsString, to: OsString },
    /// Compare files with what is stored.
    Check {
        source: PathBuf,
        prefix: OsString,
        #[command(flatten)]
        filter: Filter,
    },
    /// Wait until nothing is owed and all is durable.
    Sync,
    /// Let requests flow to where they belong, all the time and exactly once; without a source, show how that goes.
    Flush(Flush),
    /// Show where an object's bytes are, and how they are encoded.
    Locate { key: OsString },
    /// Show what is weighed for an object or a file: tiers and encodings, what wins, and why.
    Explain(Explain),
    /// Show what is read most: a heat map, the hottest range first.
    Hot {
        prefix: Option<OsString>,
        /// Show so many ranges.
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
    },
    /// Encode what is hardly read more densely, where it lies.
    Tune {
        prefix: Option<OsString>,
        /// What is read often, too.
        #[arg(long)]
        all: bool,
    },
    /// Show what is known about an object.
    Stat { key: OsString },
    /// Show the store at a glance.
    Status,
    /// Show the store at a glance, again and again.
    Top {
        /// Seconds between two looks.
        #[arg(long, default_value_t = 1.0)]
        interval: f64,
        /// Look so many times only; once where stdout is no terminal.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Put replicas of what is at or below a prefix on a tier.
    Stage {
        prefix: OsString,
        #[arg(long)]
        tier: String,
    },
    /// Take the replicas of what is at or below a prefix off a tier.
    Evict {
        prefix: OsString,
        #[arg(long)]
        tier: String,
    },
    /// Empty a tier, so that it can be removed.
    Drain { tier: String },
    /// Read and verify every replica.
    Scrub {
        prefix: Option<OsString>,
        /// Make bad and missing ones anew.
        #[arg(long)]
        repair: bool,
        /// Only the n-th of t parts.
        #[arg(long, value_name = "n/t", value_parser = subset)]
        subset: Option<(u64, u64)>,
    },
    /// Make bad and missing replicas anew.
    Repair { prefix: Option<OsString> },
    /// Give back space that no object uses: what killed writers left behind.
    Prune {
        /// Do it even where it is much: more than 64 MiB and 1 % of a target.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Subcommand)]
pub enum Tiers {
    /// Add the tiers that a file describes, each as in a configuration.
    Add {
        #[arg(value_name = "FILE")]
        config: PathBuf,
        /// The tier that they are faster than; without it they come last.
        #[arg(long, value_name = "TIER")]
        before: Option<String>,
    },
    /// Remove a tier that was drained.
    Remove { tier: String },
    /// Take what is now in the place of a tier's lost directories for its new ones, and make its replicas again.
    Renew { tier: String },
}

/// Which files of a directory. A pattern is held against a file's path, its name, and those of its folders.
#[derive(Args)]
pub struct Filter {
    /// Only what matches the pattern: a path, a name or a folder. May be given again.
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    include: Vec<GlobMatcher>,
    /// Nothing that matches the pattern. May be given again.
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    exclude: Vec<GlobMatcher>,
}

impl Filter {
    /// Whether a path, relative to the directory, passes.
    pub fn passes(&self, path: &Path) -> bool {
        let one = |glob: &GlobMatcher| {
            path.ancestors().any(|path| glob.is_match(path) || path.file_name().is_some_and(|name| glob.is_match(name)))
        };
        (self.include.is_empty() || self.include.iter().any(one)) && !self.exclude.iter().any(one)
    }
}

#[derive(Args)]
pub struct Put {
    /// A file, a directory, or - for stdin.
    pub source: PathBuf,
    /// A key; with a / at the end, or for a directory, what the keys begin with.
    pub dest: OsString,
    /// How many replicas.
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub replicas: Option<u8>,
    /// When to return.
    #[arg(long)]
    pub ack: Option<Ack>,
    #[command(flatten)]
    pub wishes: Wishes,
    /// Compare bytes, not size and time, to find out what is unchanged.
    #[arg(long)]
    pub checksum: bool,
    /// Of a file that changes meanwhile, store the bytes up to the length that it has when it is opened.
    #[arg(long)]
    pub snapshot: bool,
    /// Only say what would be written.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub filter: Filter,
}

#[derive(Args)]
pub struct Explain {
    /// A key; where nothing is stored under it, a file.
    #[arg(value_name = "KEY|PATH")]
    pub subject: OsString,
    /// For a file, the key that it would be stored under.
    #[arg(long = "as", value_name = "KEY")]
    pub key: Option<OsString>,
    /// Suppose something of a tier, such as tier.nvme.capacity=2TiB; also read, write, latency, persistent, watts.
    #[arg(long, value_name = "WHAT=VALUE")]
    pub what_if: Vec<WhatIf>,
    /// Show all encodings, not the cheapest of each tier only.
    #[arg(long)]
    pub all: bool,
    /// How many replicas.
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub replicas: Option<u8>,
    #[command(flatten)]
    pub wishes: Wishes,
}

#[derive(Args)]
pub struct Profile {
    /// Files such as will be stored: blocks out of them are profiled before made ones.
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,
    /// Tiers to measure, instead of the store's.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// For how many seconds encodings are run; what is left out keeps what the seed has of it.
    #[arg(long, value_name = "N", default_value_t = 12.0)]
    pub seconds: f64,
    /// Where the seed goes; without it into the store, or seed.json where there is none.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Args)]
pub struct Get {
    /// A key, or what keys begin with.
    pub source: OsString,
    /// A file, a directory, or - for stdout.
    pub dest: PathBuf,
    /// Of one object, bytes A up to, not including, B.
    #[arg(long, value_name = "A-B", value_parser = range)]
    pub range: Option<Range>,
    /// Compare bytes, not size and time, to find out which files below a directory are there already.
    #[arg(long)]
    pub checksum: bool,
    /// Only say what would be written.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub filter: Filter,
}

fn glob(text: &str) -> Result<GlobMatcher, globset::Error> {
    Glob::new(text).map(|glob| glob.compile_matcher())
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Ack {
    /// One replica is in a file.
    Placed,
    /// All replicas are.
    Replicated,
    /// All replicas are fsynced.
    Durable,
}

/// The bytes A up to, not including, B.
#[derive(Clone, Copy)]
pub struct Range {
    pub start: u64,
    pub end: Option<u64>,
}

/// Reads a range.
pub fn range(text: &str) -> Result<Range, String> {
    let wrong = || format!("{text:?} is not a range; write it as 100-200, or 100- up to the end");
    let (start, end) = text.split_once('-').ok_or_else(wrong)?;
    let start = start.parse().map_err(|_| wrong())?;
    let end = if end.is_empty() { None } else { Some(end.parse().map_err(|_| wrong())?) };
    if end.is_some_and(|end| end < start) { Err(wrong()) } else { Ok(Range { start, end }) }
}

fn subset(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once('/').and_then(|(n, t)| Some((n.parse().ok()?, t.parse().ok()?)));
    numbers.filter(|(n, t)| 1 <= *n && n <= t).ok_or_else(|| format!("{text:?} is not a part; write it as 1/10"))
}

#[derive(Args)]
pub struct Mount {
    /// An empty directory.
    pub directory: PathBuf,
    /// Return when it is mounted; `umount DIRECTORY` ends it.
    #[arg(long)]
    pub daemon: bool,
    /// What --daemon starts: stdout and stderr are given up when it is mounted.
    #[arg(long, hide = true, conflicts_with = "run")]
    pub detached: bool,
    /// Run a program that alone sees the mount, without privileges, and unmount when it ends. The rest of the line is its.
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true, conflicts_with = "daemon")]
    pub run: Vec<OsString>,
}
