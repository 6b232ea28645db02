//! The hosts of a job meet: each says in the shared folder how it can be reached, and all go on with the same plan.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use terrace::Store;

use super::folder::SharedFolder;
use super::hosts::Hosts;

pub const PLAN_FILE: &str = "plan.json";
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// With this many hosts or more, three of them run a member of etcd each. With fewer, one does.
const MIN_HOSTS_WITH_THREE_MEMBERS: usize = 3;

/// The target of a store on a host's own disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTarget {
    /// The number of the store.
    pub store: u64,
    /// The number of the target in it.
    pub number: u16,
}

/// How a host can be reached, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// A random number, by which the plan of an earlier job is told from this one's.
    nonce: u64,
    /// The ports of its member of etcd, for clients and for the other members.
    pub client_port: u16,
    pub peer_port: u16,
    /// The port of its target, and the fingerprint of the certificate there.
    pub target_port: u16,
    pub fingerprint: String,
    /// The target that an earlier job has left there.
    held: Option<HeldTarget>,
}

impl Arrival {
    pub fn new(
        [client_port, peer_port, target_port]: [u16; 3],
        fingerprint: String,
        held: Option<HeldTarget>,
    ) -> Result<Arrival> {
        Ok(Arrival { nonce: Store::new_id()?, client_port, peer_port, target_port, fingerprint, held })
    }
}

/// The file of a host.
#[derive(Serialize, Deserialize)]
struct Said {
    arrival: Arrival,
    /// The last plan with it that the host has seen.
    seen: Option<u64>,
}

/// All hosts, as they go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// A random number, which is this job's.
    pub id: u64,
    /// The hosts in their order.
    pub hosts: Vec<String>,
    arrivals: BTreeMap<String, Arrival>,
    /// Whether all hosts have seen it. Before, it may name a file that a killed job has left.
    is_agreed: bool,
}

impl Plan {
    pub fn arrival(&self, host: &str) -> Result<&Arrival> {
        self.arrivals.get(host).with_context(|| format!("the plan of the job lacks the host {host}"))
    }

    /// Returns the numbers of the targets of a store that its last job has left, by host.
    pub fn held(&self, store: u64) -> BTreeMap<String, u16> {
        let held = self.arrivals.iter().filter_map(|(host, arrival)| Some((host, arrival.held?)));
        held.filter(|(_, held)| held.store == store).map(|(host, held)| (host.clone(), held.number)).collect()
    }

    /// The hosts that run a member of etcd.
    pub fn log_hosts(&self) -> &[String] {
        log_hosts(&self.hosts)
    }

    /// The addresses of the members of etcd.
    pub fn servers(&self) -> Result<Vec<String>> {
        let address = |host: &String| Ok(format!("https://{host}:{}", self.arrival(host)?.client_port));
        self.log_hosts().iter().map(address).collect()
    }
}

/// Returns those of the hosts that run a member of etcd.
pub fn log_hosts(hosts: &[String]) -> &[String] {
    let count = if hosts.len() < MIN_HOSTS_WITH_THREE_MEMBERS { 1 } else { 3 };
    &hosts[..count.min(hosts.len())]
}

/// Meets the other hosts. The first one calls `prepare` with the plan before all go on with it.
pub fn meet(
    folder: &SharedFolder,
    hosts: &Hosts,
    arrival: &Arrival,
    patience: Duration,
    prepare: impl FnOnce(&Plan) -> Result<()>,
) -> Result<Plan> {
    let until = Instant::now() + patience;
    match hosts.is_first() {
        true => gather(folder, hosts, arrival, until, prepare),
        false => follow(folder, hosts, arrival, until),
    }
}

fn said_file(host: &str) -> String {
    format!("hosts/{host}.json")
}

/// Makes the plan. A host that begins again, or whose file was a killed job's, changes it; then all must see it once more.
fn gather(
    folder: &SharedFolder,
    hosts: &Hosts,
    arrival: &Arrival,
    until: Instant,
    prepare: impl FnOnce(&Plan) -> Result<()>,
) -> Result<Plan> {
    let mut plan: Option<Plan> = None;
    loop {
        let mut arrivals = BTreeMap::from([(hosts.own.clone(), arrival.clone())]);
        let mut unaware: Vec<&str> = Vec::new();
        for host in hosts.all.iter().filter(|host| **host != hosts.own) {
            let said: Option<Said> = folder.read(&said_file(host))?;
            if said.as_ref().is_none_or(|said| said.seen.is_none() || said.seen != plan.as_ref().map(|plan| plan.id)) {
                unaware.push(host);
            }
            arrivals.extend(said.map(|said| (host.clone(), said.arrival)));
        }
        if arrivals.len() == hosts.all.len() && plan.as_ref().is_none_or(|plan| plan.arrivals != arrivals) {
            let new = Plan { id: Store::new_id()?, hosts: hosts.all.clone(), arrivals, is_agreed: false };
            folder.write(PLAN_FILE, &new)?;
            plan = Some(new);
        } else if let Some(plan) = plan.as_mut().filter(|_| unaware.is_empty()) {
            prepare(plan)?;
            plan.is_agreed = true;
            folder.write(PLAN_FILE, plan)?;
            return Ok(plan.clone());
        }
        if Instant::now() > until {
            bail!("these hosts have not come in time: {}; start `terrace cluster up` on each", unaware.join(", "));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Waits until all hosts have seen a plan with this one.
fn follow(folder: &SharedFolder, hosts: &Hosts, arrival: &Arrival, until: Instant) -> Result<Plan> {
    let mut said = Said { arrival: arrival.clone(), seen: None };
    folder.write(&said_file(&hosts.own), &said)?;
    loop {
        let plan: Option<Plan> = folder.read(PLAN_FILE)?;
        if let Some(plan) = plan.filter(|plan| plan.arrivals.get(&hosts.own) == Some(arrival)) {
            if plan.is_agreed {
                return Ok(plan);
            }
            if said.seen != Some(plan.id) {
                said.seen = Some(plan.id);
                folder.write(&said_file(&hosts.own), &said)?;
            }
        }
        if Instant::now() > until {
            let first = hosts.all.first().map_or("", String::as_str);
            bail!("the first host, {first}, has not met all others in time; see what `terrace cluster up` says there");
        }
        thread::sleep(POLL_INTERVAL);
    }
}
