//! Ends a job's store from any of its hosts.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace::config::Time;
use terrace::{Locked, Store};

use super::ending::Ended;
use super::folder::SharedFolder;
use super::record::{JobRecord, Phase};
use crate::output::{Show, path_name};

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How a job's store ends.
#[derive(Args)]
pub struct Down {
    /// Begin no further copy after this time. What is not copied by then is named.
    #[arg(long, value_name = "TIME")]
    deadline: Option<Time>,
    /// Also write the result to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Ends the job whose store is in `dir`. Returns false if an object is not safe.
pub fn down(dir: &Path, asked: &Down, show: Show) -> Result<bool> {
    let store = Store::open(dir)?;
    let job = JobRecord::read(&store)?;
    let job = job.context("this store was not begun by `terrace cluster up`; end its nodes by SIGTERM")?;
    let folder = SharedFolder::open(&job.shared)?;
    JobRecord::advance(&store, Phase::Ends, asked.deadline.map(|time| time.0.as_secs()))?;
    // It would hold up the end of the node.
    drop(store);
    let ended = wait(dir, &folder, job.plan)?;
    // Before the file, for which there may be no room.
    show.result(&ended, &ended.describe())?;
    if let Some(file) = &asked.report {
        let text = serde_json::to_vec_pretty(&ended)?;
        fs::write(file, text).with_context(|| format!("writing {}", path_name(file)))?;
    }
    Ok(ended.is_safe())
}

/// Waits until the job has ended.
fn wait(dir: &Path, folder: &SharedFolder, plan: u64) -> Result<Ended> {
    let lock = dir.parent().unwrap_or(dir).join("lock");
    loop {
        // In this order: the report is there before the process of this host ends.
        let file = File::open(&lock).with_context(|| format!("opening {}", path_name(&lock)))?;
        let has_ended = Locked::at_once(file).with_context(|| format!("locking {}", path_name(&lock)))?.is_some();
        if let Some(ended) = Ended::read(folder, plan)? {
            return Ok(ended);
        }
        if has_ended {
            bail!("`terrace cluster up` of this host has ended without a report; see what it says on each host");
        }
        thread::sleep(POLL_INTERVAL);
    }
}
