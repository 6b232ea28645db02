//! The hosts of a job.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

/// The variables in which Slurm lists the hosts of a step and of a job.
const SLURM_LIST_VARIABLES: [&str; 2] = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"];
/// The variable in which Slurm names the host of a task.
const SLURM_HOST_VARIABLE: &str = "SLURMD_NODENAME";

#[derive(Args)]
pub struct AskedHosts {
    /// The hosts of the job, in the same order on each [default: those of the Slurm job].
    #[arg(long, value_name = "HOST,HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// The one of them on which this runs, as the others reach it [default: as Slurm names it].
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

/// The hosts of a job. The first one makes what all of them need.
pub struct Hosts {
    pub all: Vec<String>,
    pub own: String,
}

impl Hosts {
    /// Returns the hosts that were given, or those of the Slurm job.
    pub fn find(asked: &AskedHosts) -> Result<Hosts> {
        let all = if asked.hosts.is_empty() { ask_slurm()? } else { asked.hosts.clone() };
        let mut seen = BTreeSet::new();
        for host in &all {
            // It is a part of addresses, of names of files, and of keys in etcd.
            let is_name = host.starts_with(|c: char| c.is_ascii_alphanumeric())
                && host.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_".contains(&c));
            if !is_name {
                bail!("{host:?} is no name or address of a host; write letters, digits, dots and hyphens");
            }
            if !seen.insert(host) {
                bail!("the host {host} is listed twice; list each once");
            }
        }
        let own = match &asked.host {
            Some(host) => host.clone(),
            None => env::var(SLURM_HOST_VARIABLE)
                .context("this host's name is not known outside of a Slurm job; give --host NAME")?,
        };
        if !all.contains(&own) {
            bail!("the host {own} is none of {}; list it in --hosts, or name another one in --host", all.join(", "));
        }
        Ok(Hosts { all, own })
    }

    /// Returns whether this is the first host.
    pub fn is_first(&self) -> bool {
        self.all.first() == Some(&self.own)
    }
}

/// Returns the hosts of the Slurm job that this process belongs to.
fn ask_slurm() -> Result<Vec<String>> {
    let list = SLURM_LIST_VARIABLES.iter().find_map(|name| env::var(name).ok().filter(|list| !list.is_empty()));
    let list = list.context("this is no Slurm job, so its hosts are not known; give --hosts HOST,HOST")?;
    let asked = Command::new("scontrol").args(["show", "hostnames", &list]).output();
    let asked = asked.context("asking scontrol for the hosts of the job; give --hosts if it is not there")?;
    let names: Vec<String> = String::from_utf8_lossy(&asked.stdout).lines().map(str::to_owned).collect();
    if !asked.status.success() || names.is_empty() {
        bail!("scontrol does not list the hosts {list}: {}", String::from_utf8_lossy(&asked.stderr).trim());
    }
    Ok(names)
}
