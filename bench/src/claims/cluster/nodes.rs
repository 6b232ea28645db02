//! [`SharedStore`]: nodes on this machine that share a store, each in a process of its own.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use terrace::Store;
use terrace_testkit::{EtcdCluster, free_ports};

use super::link::LimitedLink;
use crate::place::Place;

pub const NODE_NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// A node must serve this long after its start at the latest.
const MAX_START_WAIT: Duration = Duration::from_secs(60);
const START_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The tier of the nodes' targets.
pub const NODES_TIER: &str = "nodes";
/// The tier below those of the nodes.
const SHARED_TIER: &str = "shared";
/// The target of each node.
const TARGET_NAME: &str = "memory";

/// The size of a shared store.
#[derive(Clone, Copy)]
pub struct StoreShape {
    /// The number of nodes, four at most. Each has one target in memory.
    pub nodes: usize,
    /// The number of replicas of an extent.
    pub replicas: u8,
    /// The bandwidth of each node's targets in each direction, if it is limited.
    pub bytes_per_second: Option<f64>,
    /// The bandwidth of a tier below theirs, which one more node serves, if there is one.
    pub shared_tier: Option<f64>,
}

impl StoreShape {
    /// Nodes without limits and without a shared tier.
    pub fn new(nodes: usize, replicas: u8) -> StoreShape {
        StoreShape { nodes, replicas, bytes_per_second: None, shared_tier: None }
    }
}

/// Running nodes of one store. They are killed when this is dropped.
pub struct SharedStore {
    nodes: Vec<Option<Child>>,
    place: Place,
    _links: Vec<LimitedLink>,
}

impl SharedStore {
    /// Makes a store, and starts its nodes.
    pub fn start(etcd: &EtcdCluster, shape: StoreShape) -> Result<SharedStore> {
        let StoreShape { replicas, bytes_per_second, shared_tier, .. } = shape;
        let nodes = shape.nodes + usize::from(shared_tier.is_some());
        let place = Place::new()?;
        let names = NODE_NAMES.get(..nodes).context("there are no names for all nodes")?;
        let secret = place.disk().join("secret");
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(&secret)?;
        writeln!(file, "a-secret-of-the-benchmark")?;
        let (mut targets, mut shared_target, mut links) = (String::new(), String::new(), Vec::new());
        for (at, (name, port)) in names.iter().zip(free_ports(nodes)).enumerate() {
            let (rate, targets) =
                if at < shape.nodes { (bytes_per_second, &mut targets) } else { (shared_tier, &mut shared_target) };
            let (disk, secret) = (place.ram().join(name), secret.display());
            let text = format!(
                "listen = '127.0.0.1:{port}'\nsecret = '{secret}'\n[[target]]\nname = '{TARGET_NAME}'\npath = '{}'\n",
                disk.display()
            );
            fs::write(place.disk().join(format!("{name}.toml")), text)?;
            let mut address = ([127, 0, 0, 1], port).into();
            if let Some(rate) = rate {
                let link = LimitedLink::start(address, rate)?;
                address = link.address();
                links.push(link);
            }
            targets.push_str(&format!("{{ path = 'http://{address}/{TARGET_NAME}', node = '{name}' }}, "));
        }
        let config = place.disk().join("shared.toml");
        let mut text = format!("[store]\nreplicas = {{ min = 1, default = {replicas} }}\n");
        for (tier, targets) in [(NODES_TIER, targets), (SHARED_TIER, shared_target)] {
            if !targets.is_empty() {
                text.push_str(&format!(
                    "[[tier]]\nname = '{tier}'\nkind = 'node'\noptions = {{ secret = '{}' }}\ntargets = [{targets}]\n",
                    secret.display()
                ));
            }
        }
        fs::write(&config, text)?;
        let mut shared = SharedStore { nodes: names.iter().map(|_| None).collect(), place, _links: links };
        let servers: Vec<String> = etcd.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let servers = format!("etcd://{}", servers.join(","));
        let snapshots = shared.place.disk().join("snapshots");
        let mut init = shared.command(0, &["init", "--json", "--cluster", &servers, "--name", names[0]])?;
        let made = init.arg("--config").arg(&config).arg("--snapshots").arg(&snapshots).output()?;
        ensure!(made.status.success(), "terrace init: {}", String::from_utf8_lossy(&made.stderr));
        let made: serde_json::Value = serde_json::from_slice(&made.stdout)?;
        let log = made["log"].as_str().context("terrace init names no log")?;
        let snapshots = snapshots.display().to_string();
        for (at, name) in names.iter().enumerate() {
            let join = ["--join", log, "--name", name, "--snapshots", &snapshots];
            shared.start_node(at, if at == 0 { &[] } else { &join })?;
        }
        (0..nodes).try_for_each(|at| shared.wait_for_node(at))?;
        Ok(shared)
    }

    /// Returns the store's directory on the machine of a node.
    pub fn dir(&self, at: usize) -> PathBuf {
        self.place.disk().join(NODE_NAMES[at])
    }

    /// Opens the store as a process on the machine of a node does.
    pub fn open(&self, at: usize) -> Result<Store> {
        Ok(Store::open(&self.dir(at))?)
    }

    /// Kills the process of a node.
    pub fn kill_node(&mut self, at: usize) -> Result<()> {
        if let Some(mut node) = self.nodes[at].take() {
            node.kill()?;
            node.wait()?;
        }
        Ok(())
    }

    /// Starts the process of a node that was killed.
    pub fn start_again(&mut self, at: usize) -> Result<()> {
        self.start_node(at, &[])
    }

    /// Waits until the processes of a node's machine can use the store, and reach all targets.
    pub fn wait_for_node(&mut self, at: usize) -> Result<()> {
        let started = Instant::now();
        loop {
            if let Some(ended) = self.nodes[at].as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("node {} has ended with {ended}: {}", NODE_NAMES[at], self.messages());
            }
            let status = self.command(at, &["status", "--json"])?.output()?;
            // The first nodes serve before the targets of the last one can be reached.
            if status.status.success() && String::from_utf8_lossy(&status.stdout).contains("\"state\":\"ok\"") {
                return Ok(());
            }
            ensure!(started.elapsed() < MAX_START_WAIT, "node {} does not serve: {}", NODE_NAMES[at], self.messages());
            thread::sleep(START_POLL_INTERVAL);
        }
    }

    fn start_node(&mut self, at: usize, more: &[&str]) -> Result<()> {
        let mut command = self.command(at, &["node", "--no-listen", "--targets"])?;
        let log = File::options().create(true).append(true).open(self.log_file())?;
        command.arg(self.place.disk().join(format!("{}.toml", NODE_NAMES[at]))).args(more);
        self.nodes[at] = Some(command.stdout(log.try_clone()?).stderr(log).spawn()?);
        Ok(())
    }

    fn command(&self, at: usize, arguments: &[&str]) -> Result<Command> {
        let program = std::env::current_exe()?.with_file_name("terrace");
        ensure!(program.is_file(), "there is no `terrace` beside this program; `make bench` builds both");
        let mut command = Command::new(program);
        command.arg("--store").arg(self.dir(at)).args(arguments).stdin(Stdio::null());
        Ok(command)
    }

    fn log_file(&self) -> PathBuf {
        self.place.disk().join("nodes.log")
    }

    /// Returns what all nodes have printed.
    fn messages(&self) -> String {
        // The caller reports another error.
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }
}

impl Drop for SharedStore {
    fn drop(&mut self) {
        for at in 0..self.nodes.len() {
            // It may have ended by itself.
            let _ = self.kill_node(at);
        }
    }
}
