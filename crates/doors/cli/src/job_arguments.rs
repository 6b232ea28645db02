//! The arguments of `terrace job`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use terrace::config::Time;

/// The two ends of a job.
#[derive(Subcommand)]
pub enum Job {
    /// Copy what the job reads into the store, and compare it there.
    ///
    /// A file keeps its name below --origin as its key. Repeated, it copies only what is missing or differs. Exits with 1 if an input is not there.
    ///
    /// Example: terrace job start --origin /pfs/input --stage inputs.txt
    Start(JobStart),
    /// Copy what the job made to where it stays, and compare it there.
    ///
    /// Each object is a file there, with its key as its name: whole, synced, read back. The inputs of `job start` that have not changed are left out.
    /// After SIGTERM, what is in progress is finished, and the rest is reported. Repeated, it copies only what is missing or differs. Exits with 0
    /// only if every object is there.
    ///
    /// Example: terrace job end --to /pfs/results --deadline 10m --report end.json
    End(JobEnd),
}

#[derive(Args)]
pub struct JobStart {
    /// The directory of the inputs, or SERVICE://BUCKET/PATH.
    #[arg(long, value_name = "DIR|URL")]
    pub origin: OsString,
    /// A file with the names of inputs below the origin, one on each line; a folder stands for all that is in it. - is standard input
    /// [default: all that is there].
    #[arg(long, value_name = "LIST")]
    pub stage: Option<PathBuf>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
}

#[derive(Args)]
pub struct JobEnd {
    /// The directory of the results, or SERVICE://BUCKET/PATH.
    #[arg(long, value_name = "DIR|URL")]
    pub to: OsString,
    /// A file with the keys to copy, one on each line, the most wanted first; a prefix stands for all keys below it. - is standard input
    /// [default: all keys, those that changed last first].
    #[arg(long, value_name = "LIST")]
    pub save: Option<PathBuf>,
    /// Stop after this time. What is not copied by then is reported.
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<Time>,
    /// Also write the result to this file, as JSON. It is there from the beginning, so that a killed command leaves one, too.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
}
