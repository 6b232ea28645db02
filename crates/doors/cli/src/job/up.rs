//! Starts this host's part of a job's store, and runs it until a signal arrives.

use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use signal_hook::iterator::Signals;
use terrace::{Cluster, Consistency, SharedNode, Store};
use terrace_node::Targets;
use terrace_order::OrderError;

use super::Up;
use super::authority::{HostFiles, certify};
use super::config::{SECRET_FILE, make};
use super::ending::{Ending, end_at_once_on_interrupt};
use super::etcd::{EtcdMember, find, listening_address};
use super::folder::SharedFolder;
use super::hosts::Hosts;
use super::local::{LocalFolder, find_ports};
use super::meeting::{Arrival, Plan, meet};
use super::record::{JobRecord, Phase};
use crate::cluster;
use crate::interrupt::{catch_signals, say};
use crate::node;
use crate::output::{count, note, path_name};

const LOG_FILE: &str = "log.json";
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const SECRET_BYTES: usize = 32;

/// The log of a job's store, once it is there.
#[derive(Serialize, Deserialize)]
struct JobLog {
    /// The plan of the job.
    plan: u64,
    /// The number of the store.
    store: u64,
}

/// This host's part of a job, before it has a node.
struct Host<'a> {
    asked: &'a Up,
    hosts: Hosts,
    folder: SharedFolder,
    local: LocalFolder,
    plan: Plan,
    etcd: Option<EtcdMember>,
    until: Instant,
}

/// Runs this host's part until the job ends. Returns false if an object is not safe then.
pub fn up(asked: &Up) -> Result<bool> {
    cluster::check_built()?;
    let signals = catch_signals()?;
    let mut host = Host::begin(asked)?;
    let shared = if host.hosts.is_first() { host.make_store()? } else { host.join_store()? };
    let address = listening_address(&host.hosts.own)?;
    let listen = SocketAddr::new(address, host.plan.arrival(&host.hosts.own)?.target_port);
    let targets = host.local.describe_target(&host.folder, listen, asked.capacity)?;
    let targets = Targets::begin(&targets, Some(shared.numbers()))?;
    let store = Store::open_on_node(&host.local.store(), &shared)?;
    shared.serve(&store)?;
    let mut options = terrace_node::Options::default();
    options.scrub_interval = None;
    let has_failed = Arc::new(AtomicBool::new(false));
    let failed = has_failed.clone();
    // Relaxed: the reason is returned by the node's end.
    let failed = move || failed.store(true, Ordering::Relaxed);
    let node = node::begin(store.clone(), Some(shared), Some(&targets), &options, failed)?;
    if host.hosts.is_first() {
        let (plan, shared) = (host.plan.id, host.folder.path(""));
        JobRecord { plan, shared, phase: Phase::Runs, seconds: None }.publish(&store)?;
    }
    host.wait_for_all(&store)?;
    let place = host.local.store();
    say(&format!(
        "the store of {} can be used: export TERRACE_STORE={}",
        count(host.plan.hosts.len() as u64, "host"),
        path_name(&place)
    ));
    let ends = host.run(&store, signals, &has_failed)?;
    let Some(record) = ends else {
        drop(store);
        node.end()?;
        bail!("the node of this host has ended; see its messages");
    };
    let ended = host.ending().run(store, node, targets, record.seconds)?;
    say(&ended.describe());
    Ok(ended.unsaved.is_empty())
}

impl<'a> Host<'a> {
    /// Meets the other hosts, and starts this one's member of etcd.
    fn begin(asked: &'a Up) -> Result<Host<'a>> {
        let hosts = Hosts::find(&asked.hosts)?;
        let program = find(asked.etcd.as_deref())?;
        let folder = SharedFolder::open(&asked.shared)?;
        Store::check_place(&asked.local)?;
        let local = LocalFolder::open(&asked.local)?;
        if local.store().exists() {
            bail!("{} holds the store of an earlier job; remove it, or name another folder", path_name(local.path()));
        }
        let until = Instant::now() + asked.patience.0;
        let ports = find_ports(listening_address(&hosts.own)?)?;
        let arrival = Arrival::new(ports, local.identity()?.fingerprint().to_owned())?;
        let plan = meet(&folder, &hosts, &arrival, asked.patience.0, |plan| {
            certify(&folder, &plan.hosts)?;
            make_secret(&folder)
        })?;
        let mut etcd = None;
        if plan.log_hosts().contains(&hosts.own) {
            let files = HostFiles::of(&folder, &hosts.own);
            etcd = Some(EtcdMember::start(&program, &plan, &hosts.own, &files, local.path())?);
            note(&format!("etcd keeps the log of the store in {}", path_name(&local.path().join("etcd"))));
        }
        Ok(Host { asked, hosts, folder, local, plan, etcd, until })
    }

    /// This host's part in the store.
    fn cluster(&self) -> Result<Cluster> {
        Ok(Cluster {
            servers: self.plan.servers()?,
            node: self.hosts.own.clone(),
            snapshots: Some(self.folder.path("snapshots")),
            consistency: Consistency::default(),
            access: HostFiles::of(&self.folder, &self.hosts.own).access(),
        })
    }

    /// Makes the store, and starts its first node.
    fn make_store(&mut self) -> Result<SharedNode> {
        let config = make(self.asked.config.as_deref(), &self.folder, &self.plan, self.asked.capacity)?;
        Cluster::check(&config)?;
        let (cluster, store, dir) = (self.cluster()?, Store::new_id()?, self.local.store());
        let order = self.patiently(|| cluster::make_log(&cluster, store))?;
        Store::init_node(&dir, store, &cluster)?;
        let node = SharedNode::start(&dir, order, Some(&config))?;
        self.folder.write(LOG_FILE, &JobLog { plan: self.plan.id, store })?;
        Ok(node)
    }

    /// Waits until the first host has made the store, and joins it.
    fn join_store(&mut self) -> Result<SharedNode> {
        let (cluster, dir) = (self.cluster()?, self.local.store());
        let store = loop {
            let log: Option<JobLog> = self.folder.read(LOG_FILE)?;
            if let Some(log) = log.filter(|log| log.plan == self.plan.id) {
                break log.store;
            }
            self.check("the first host has not made the store in time; see what `terrace cluster up` says there")?;
        };
        let order = self.patiently(|| cluster::open_log(&cluster, store))?;
        Store::init_node(&dir, store, &cluster)?;
        Ok(SharedNode::start(&dir, order, None)?)
    }

    /// Waits until all nodes are there. Without some, the store works as if these had died.
    fn wait_for_all(&mut self, store: &Store) -> Result<()> {
        loop {
            let missing: Vec<String> =
                store.nodes()?.into_iter().filter(|node| !node.is_there).map(|node| node.name).collect();
            if missing.is_empty() {
                return Ok(());
            }
            self.check(&format!(
                "these hosts have no node yet: {}; see what `terrace cluster up` says there",
                missing.join(", ")
            ))?;
        }
    }

    /// Calls the log until it answers, since members of etcd need a moment to find each other.
    fn patiently<T>(&mut self, call: impl Fn() -> Result<T>) -> Result<T> {
        loop {
            match call() {
                Err(error) if matches!(error.downcast_ref(), Some(OrderError::NoAnswer { .. })) => {
                    self.check(&error.to_string())?;
                }
                done => return done,
            }
        }
    }

    /// Waits for a moment. Fails with the reason if it has waited for too long, or if etcd has ended.
    fn check(&mut self, reason: &str) -> Result<()> {
        if Instant::now() > self.until {
            bail!("{reason}");
        }
        self.etcd.as_mut().map_or(Ok(()), EtcdMember::check)?;
        thread::sleep(POLL_INTERVAL);
        Ok(())
    }

    /// Keeps etcd running until the job ends, which a signal here asks for, too. None if the node has failed.
    fn run(&mut self, store: &Store, mut signals: Signals, has_failed: &AtomicBool) -> Result<Option<JobRecord>> {
        while !has_failed.load(Ordering::Relaxed) {
            if signals.pending().next().is_some() {
                JobRecord::advance(store, Phase::Ends, self.asked.deadline.map(|time| time.0.as_secs()))?;
            }
            let record = JobRecord::read(store)?.filter(|record| record.plan == self.plan.id);
            if let Some(record) = record.filter(|record| record.phase > Phase::Runs) {
                end_at_once_on_interrupt(signals);
                return Ok(Some(record));
            }
            self.etcd.as_mut().map_or(Ok(()), EtcdMember::keep)?;
            thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    fn ending(&mut self) -> Ending<'_> {
        Ending {
            host: &self.hosts.own,
            plan: &self.plan,
            folder: &self.folder,
            local: &self.local,
            etcd: self.etcd.as_mut(),
            patience: self.asked.patience.0,
        }
    }
}

/// Makes the secret of the hosts' targets, unless an earlier job has made it.
fn make_secret(folder: &SharedFolder) -> Result<()> {
    let path = folder.path(SECRET_FILE);
    if path.try_exists().with_context(|| format!("looking for {}", path_name(&path)))? {
        return Ok(());
    }
    let make = || {
        let mut bytes = [0; SECRET_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(&path)?;
        file.write_all(STANDARD_NO_PAD.encode(bytes).as_bytes())?;
        file.sync_all()
    };
    make().with_context(|| format!("making {}", path_name(&path)))
}
