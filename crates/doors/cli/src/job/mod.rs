//! `terrace cluster up` and `down`: one store over the hosts of a job, for the time of the job.

mod authority;
mod config;
mod down;
mod ending;
mod etcd;
mod folder;
mod hosts;
mod local;
mod meeting;
mod record;
mod saving;
mod up;

use std::path::PathBuf;

use clap::Args;
use terrace::config::{Bytes, Time};

pub use down::{Down, down};
use hosts::AskedHosts;
pub use up::up;

/// The hosts, folders and programs of a job.
#[derive(Args)]
pub struct Up {
    /// A folder that all hosts see, such as one of a parallel file system. It outlives the job, and holds a tier of the store.
    #[arg(long, value_name = "FOLDER")]
    shared: PathBuf,
    /// A folder on each host's own disk, for the store's directory, the host's target and the data of etcd.
    #[arg(long, value_name = "FOLDER")]
    local: PathBuf,
    #[command(flatten)]
    hosts: AskedHosts,
    /// Read defaults and rules from this file, which has no tiers: the job's are `local` and `shared`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use at most this much of each host's disk.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// The program etcd, 3.6 or newer [default: etcd in PATH].
    #[arg(long, value_name = "PROGRAM")]
    etcd: Option<PathBuf>,
    /// Give up if the other hosts have not come in this time.
    #[arg(long, value_name = "TIME", default_value = "5min")]
    patience: Time,
    /// Save the catalog in this time again and again. A job that is killed loses what was changed later.
    #[arg(long, value_name = "TIME", default_value = "1min")]
    save_every: Time,
    /// At SIGTERM, begin no further copy after this time. What is not copied by then is named.
    #[arg(long, value_name = "TIME")]
    deadline: Option<Time>,
}
