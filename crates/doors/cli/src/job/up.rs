//! Starts this host's part of a job's store, and runs it until a signal arrives.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Serialize};
use signal_hook::iterator::Signals;
use terrace::{Cluster, Config, Consistency, SavedCatalog, SharedNode, Store};
use terrace_node::Targets;
use terrace_order::OrderError;

use super::Up;
use super::authority::{HostFiles, certify};
use super::config::{self, SECRET_FILE, SHARED_TARGET, make};
use super::ending::{Ended, Ending, end_at_once_on_interrupt, list};
use super::etcd::{EtcdMember, find, listening_address};
use super::folder::SharedFolder;
use super::hosts::Hosts;
use super::local::{LocalFolder, find_ports, remove_folder};
use super::meeting::{Arrival, HeldTarget, PLAN_FILE, Plan, log_hosts, meet};
use super::record::{JobRecord, Phase};
use super::saving::{SAVED_FILE, SAVED_FOLDER, Saver, keep_room, save};
use crate::cluster;
use crate::interrupt::{catch_signals, say};
use crate::node;
use crate::output::{complain, count, note, path_name};

const LOG_FILE: &str = "log.json";
/// The folder of snapshots for nodes that are behind.
const SNAPSHOT_FOLDER: &str = "snapshots";
/// The file that lists what the last job has lost.
const MISSING_FILE: &str = "missing.json";
const MAX_SHOWN_OBJECTS: usize = 20;
/// The extensions of the files of a host.
const HOST_FILE_EXTENSIONS: [&str; 3] = ["json", "key", "pem"];
/// How long a host of an earlier job may take to answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const SECRET_BYTES: usize = 32;

/// The job that uses the shared folder, and its store's log.
#[derive(Serialize, Deserialize)]
struct JobLog {
    /// The plan of the job.
    plan: u64,
    hosts: Vec<String>,
    /// The addresses of the members of etcd.
    servers: Vec<String>,
    /// The number of the store, once others can join.
    store: Option<u64>,
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
    let mut host = Host::begin(asked)?;
    host.start_etcd().and_then(|()| host.serve()).map_err(|error| host.explain(error))
}

impl<'a> Host<'a> {
    /// Runs this host's part, whose member of etcd runs. Returns false if an object is not safe at the end.
    fn serve(&mut self) -> Result<bool> {
        let shared = if self.hosts.is_first() { self.make_store()? } else { self.join_store()? };
        let address = listening_address(&self.hosts.own)?;
        let listen = SocketAddr::new(address, self.plan.arrival(&self.hosts.own)?.target_port);
        self.hold_target()?;
        let targets = self.local.describe_target(&self.folder, listen, self.asked.capacity)?;
        let targets = Targets::begin(&targets, Some(shared.numbers()))?;
        let store = Store::open_on_node(&self.local.store(), &shared)?;
        shared.serve(&store)?;
        let mut options = terrace_node::Options::default();
        options.scrub_interval = None;
        let has_failed = Arc::new(AtomicBool::new(false));
        let failed = has_failed.clone();
        // Relaxed: the reason is returned by the node's end.
        let failed = move || failed.store(true, Ordering::Relaxed);
        self.open_for_others(&store)?;
        let limit = shared.last_given_back();
        let mut saver = Saver::begin(&self.folder, self.asked.save_every.0, limit)?;
        let node = node::begin(store.clone(), Some(shared), Some(&targets), &options, failed)?;
        self.wait_for_all(&store)?;
        // Before, a signal ends the process at once, as a crash would.
        let signals = catch_signals()?;
        let place = self.local.store();
        say(&format!(
            "the store of {} can be used: export TERRACE_STORE={}",
            count(self.plan.hosts.len() as u64, "host"),
            path_name(&place)
        ));
        let ends = self.run(&store, &mut saver, signals, &has_failed)?;
        let Some(record) = ends else {
            drop(store);
            node.end()?;
            bail!("the node of this host has ended; see its messages");
        };
        let ended = self.ending(&mut saver).run(store, node, targets, record.seconds)?;
        say(&ended.describe());
        Ok(ended.is_safe())
    }

    /// Meets the other hosts.
    fn begin(asked: &'a Up) -> Result<Host<'a>> {
        let hosts = Hosts::find(&asked.hosts)?;
        // An error here is clearer than one after the others have come.
        find_etcd(asked, &hosts)?;
        let folder = SharedFolder::open(&asked.shared)?;
        Store::check_place(&asked.local)?;
        let local = LocalFolder::open(&asked.local)?;
        if hosts.is_first() {
            check_unused(&folder, None)?;
        }
        let until = Instant::now() + asked.patience.0;
        let ports = find_ports(listening_address(&hosts.own)?)?;
        let arrival = Arrival::new(ports, local.identity()?.fingerprint().to_owned(), local.held()?)?;
        let plan = meet(&folder, &hosts, &arrival, asked.patience.0, |plan| {
            forget_others(&folder, &plan.hosts)?;
            certify(&folder, &plan.hosts)?;
            make_secret(&folder)
        })?;
        if hosts.is_first() {
            // Two jobs that begin at once: each writes its plan, and then looks for the other's log.
            check_unused(&folder, Some(plan.id))?;
        }
        local.begin()?;
        Ok(Host { asked, hosts, folder, local, plan, etcd: None, until })
    }

    /// Starts this host's member of etcd, if it has one.
    fn start_etcd(&mut self) -> Result<()> {
        if let Some(program) = find_etcd(self.asked, &self.hosts)? {
            let (own, path) = (&self.hosts.own, self.local.path());
            let files = HostFiles::of(&self.folder, own);
            self.etcd = Some(EtcdMember::start(&program, &self.plan, own, &files, path)?);
            note(&format!("etcd keeps the log of the store in {}", path_name(&path.join("etcd"))));
        }
        Ok(())
    }

    /// Returns the reason for an error: two jobs that begin at once replace each other's files, until one of them notices it.
    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        match self.folder.read::<Plan>(PLAN_FILE) {
            Ok(Some(plan)) if plan.id != self.plan.id => error.context(format!(
                "another job, on {}, uses the shared folder since this one began; start them one after the other",
                plan.hosts.join(", ")
            )),
            _ => error,
        }
    }

    /// This host's part in the store.
    fn cluster(&self) -> Result<Cluster> {
        Ok(Cluster {
            servers: self.plan.servers()?,
            node: self.hosts.own.clone(),
            snapshots: Some(self.folder.path(SNAPSHOT_FOLDER)),
            consistency: Consistency::default(),
            access: HostFiles::of(&self.folder, &self.hosts.own).access(),
        })
    }

    /// Makes the store, or goes on with what the last job has saved, and starts its first node.
    fn make_store(&mut self) -> Result<SharedNode> {
        let config = make(self.asked.config.as_deref(), &self.folder, &self.plan, self.asked.capacity)?;
        Cluster::check(&config)?;
        self.claim(None)?;
        // What nodes of an earlier log have left there.
        remove_folder(&self.folder.path(SNAPSHOT_FOLDER))?;
        let saved: Option<SavedCatalog> = self.folder.read(SAVED_FILE)?;
        match saved {
            Some(saved) => self.go_on(&saved, config),
            None => self.make_new(&config),
        }
    }

    fn make_new(&mut self, config: &Config) -> Result<SharedNode> {
        let tier = self.folder.path(SHARED_TARGET);
        if tier.exists() {
            bail!(
                "{} is there, and {SAVED_FILE} beside it is not, which names its catalog; take that back from a backup. If no job ever got as far as a \
                 store here, remove the folder",
                path_name(&tier)
            );
        }
        let (cluster, store, dir) = (self.cluster()?, Store::new_id()?, self.local.store());
        let order = self.patiently(|| cluster::make_log(&cluster, store))?;
        Store::init_node(&dir, store, &cluster)?;
        Ok(SharedNode::start(&dir, order, Some(config))?)
    }

    fn go_on(&mut self, saved: &SavedCatalog, config: Config) -> Result<SharedNode> {
        let (cluster, dir) = (self.cluster()?, self.local.store());
        // Until etcd answers.
        self.patiently(|| match cluster::open_log(&cluster, saved.store) {
            Err(error) if matches!(error.downcast_ref(), Some(OrderError::NoLog { .. })) => Ok(()),
            opened => opened.map(drop),
        })?;
        Store::init_node(&dir, saved.store, &cluster)?;
        let file = self.folder.path(SAVED_FOLDER).join(&saved.file);
        let (are_given, held) = (self.asked.config.is_some(), self.plan.held(saved.store));
        let change = |before| config::go_on(config, are_given, before, &held);
        let missing = SharedNode::go_on(&dir, &file, change, cluster::log_maker(&cluster, saved.store, false)?)?;
        self.folder.write(MISSING_FILE, &missing)?;
        if !missing.is_empty() {
            let number = count(missing.len() as u64, "object");
            let shown = &missing[..missing.len().min(MAX_SHOWN_OBJECTS)];
            complain(&format!(
                "{number} had bytes only on disks that are not here any more, which {MISSING_FILE} in the shared folder lists:{}",
                list(shown)
            ));
        }
        Ok(SharedNode::start(&dir, cluster::open_log(&cluster, saved.store)?, None)?)
    }

    /// Lets the other hosts join, if this is the first one. From now on a catalog is saved.
    fn open_for_others(&self, store: &Store) -> Result<()> {
        if !self.hosts.is_first() {
            return Ok(());
        }
        let (plan, shared) = (self.plan.id, self.folder.path(""));
        JobRecord { plan, shared, phase: Phase::Runs, seconds: None }.publish(store)?;
        self.claim(None)?;
        save(store, &self.folder)?;
        if let Err(error) = keep_room(store, &self.folder) {
            complain(&format!("{error:#}"));
        }
        self.claim(Some(store.id()))
    }

    /// Says that this job uses the shared folder. Fails if another one has made its plan since.
    fn claim(&self, store: Option<u64>) -> Result<()> {
        let (hosts, servers) = (self.plan.hosts.clone(), self.plan.servers()?);
        self.folder.write(LOG_FILE, &JobLog { plan: self.plan.id, hosts, servers, store })?;
        let plan: Option<Plan> = self.folder.read(PLAN_FILE)?;
        match plan.is_some_and(|plan| plan.id == self.plan.id) {
            true => Ok(()),
            false => bail!("another job begins in the shared folder at the same time; start them one after the other"),
        }
    }

    /// Makes room for this host's target, whose number the configuration has.
    fn hold_target(&self) -> Result<()> {
        let dir = self.local.store();
        let config = Config::read(&dir.join("terrace.toml"))?;
        let mut targets = config.tiers.iter().flat_map(|tier| &tier.targets);
        let own = targets.find(|target| target.node.as_ref() == Some(&self.hosts.own)).and_then(|target| target.number);
        let number = own.context("the configuration in the log has no target of this host")?;
        self.local.hold(HeldTarget { store: Store::read_id(&dir)?, number })
    }

    /// Waits until the first host has made the store, and joins it.
    fn join_store(&mut self) -> Result<SharedNode> {
        let (cluster, dir) = (self.cluster()?, self.local.store());
        let store = loop {
            let log: Option<JobLog> = self.folder.read(LOG_FILE)?;
            if let Some(store) = log.filter(|log| log.plan == self.plan.id).and_then(|log| log.store) {
                break store;
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
    fn run(
        &mut self,
        store: &Store,
        saver: &mut Saver,
        mut signals: Signals,
        has_failed: &AtomicBool,
    ) -> Result<Option<JobRecord>> {
        self.etcd.as_mut().map_or(Ok(()), EtcdMember::keep)?;
        while !has_failed.load(Ordering::Relaxed) {
            if signals.pending().next().is_some() {
                JobRecord::advance(store, Phase::Ends, self.asked.deadline.map(|time| time.0.as_secs())).context(
                    "the hosts cannot be told that the job ends; the next one goes on with the last saved catalog",
                )?;
            }
            let record = JobRecord::read(store)?.filter(|record| record.plan == self.plan.id);
            if let Some(record) = record.filter(|record| record.phase > Phase::Runs) {
                end_at_once_on_interrupt(signals);
                return Ok(Some(record));
            }
            saver.work(store, &self.folder, &self.plan, &self.hosts.own);
            thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }

    fn ending<'b>(&'b mut self, saver: &'b mut Saver) -> Ending<'b> {
        Ending {
            host: &self.hosts.own,
            plan: &self.plan,
            folder: &self.folder,
            local: &self.local,
            saver,
            patience: self.asked.patience.0,
        }
    }
}

/// Finds the program etcd. None if a host runs no member of it.
fn find_etcd(asked: &Up, hosts: &Hosts) -> Result<Option<PathBuf>> {
    let runs_one = log_hosts(&hosts.all).contains(&hosts.own);
    runs_one.then(|| find(asked.etcd.as_deref())).transpose()
}

/// Removes the files of hosts of earlier jobs.
fn forget_others(folder: &SharedFolder, hosts: &[String]) -> Result<()> {
    let path = folder.path("hosts");
    let remove = || {
        for entry in fs::read_dir(&path)? {
            let path = entry?.path();
            // Another name is that of a file which a host of another job writes now, and is about to rename.
            let is_whole =
                path.extension().is_some_and(|extension| HOST_FILE_EXTENSIONS.iter().any(|one| extension == *one));
            let is_own = path.file_stem().is_some_and(|host| hosts.iter().any(|one| host == one.as_str()));
            if is_whole && !is_own {
                match fs::remove_file(&path) {
                    // Another job that begins now has removed it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => removed?,
                }
            }
        }
        Ok::<_, io::Error>(())
    };
    remove().with_context(|| format!("removing files of earlier jobs from {}", path_name(&path)))
}

/// Checks that no other job than the one with this plan uses the folder now.
fn check_unused(folder: &SharedFolder, plan: Option<u64>) -> Result<()> {
    let log: Option<JobLog> = folder.read(LOG_FILE)?;
    let Some(log) = log.filter(|log| Some(log.plan) != plan) else { return Ok(()) };
    if Ended::read(folder, log.plan)?.is_some() {
        return Ok(());
    }
    match log.servers.iter().find(|server| answers(server)) {
        Some(server) => bail!(
            "a job on {} uses the shared folder: {server} answers; end it by `terrace cluster down`. If it has ended, somebody else listens there: \
             remove {}",
            log.hosts.join(", "),
            path_name(&folder.path(LOG_FILE))
        ),
        None => Ok(()),
    }
}

/// Returns whether anybody listens at an address.
fn answers(server: &str) -> bool {
    let addresses = server.strip_prefix("https://").and_then(|place| place.to_socket_addrs().ok());
    addresses.into_iter().flatten().any(|address| TcpStream::connect_timeout(&address, CONNECTION_TIMEOUT).is_ok())
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
        // Later jobs take whatever is there for the secret, so a power cut must not leave a part of it.
        file.sync_all()
    };
    make().with_context(|| format!("making {}", path_name(&path)))
}
