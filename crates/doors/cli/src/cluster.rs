//! Stores that several nodes share, and the address of their log.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use terrace::{Cluster, Config, SharedNode, Store};
use terrace_order::Order;

use crate::output::{Show, path_name};

/// The address of a log: `etcd://HOST:PORT,.../STORE`.
#[derive(Clone)]
pub struct LogAddress {
    servers: Vec<String>,
    /// None for a store that is to be made.
    store: Option<u64>,
}

impl FromStr for LogAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<LogAddress, String> {
        let wrong = || format!("{text:?} is no address of a log; write etcd://HOST:PORT,HOST:PORT/STORE");
        let rest = text.strip_prefix("etcd://").ok_or_else(wrong)?;
        let (hosts, store) = rest.split_once('/').unwrap_or((rest, ""));
        let is_host = |host: &str| host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !hosts.split(',').all(is_host) {
            return Err(wrong());
        }
        let store = match store {
            "" => None,
            id => Some(u64::from_str_radix(id, 16).map_err(|_| wrong())?),
        };
        Ok(LogAddress { servers: hosts.split(',').map(|host| format!("http://{host}")).collect(), store })
    }
}

impl LogAddress {
    /// The address of a store's log, as `--join` takes it.
    fn of(cluster: &Cluster, store: u64) -> String {
        let hosts: Vec<&str> =
            cluster.servers.iter().filter_map(|server| server.split_once("://")).map(|(_, host)| host).collect();
        format!("etcd://{}/{store:016x}", hosts.join(","))
    }
}

/// This machine's part in a shared store.
#[derive(Args)]
pub struct NodePart {
    /// The name of this machine's node, for --join and --cluster. The configuration's targets with this `node` are its own.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A folder that all nodes see, for snapshots of the catalog, for --join and --cluster. Without one, the log only grows.
    #[arg(long, value_name = "FOLDER")]
    snapshots: Option<PathBuf>,
}

impl NodePart {
    fn with(&self, log: &LogAddress) -> Result<Cluster> {
        let node = self.name.clone().context("the node has no name; give --name NAME")?;
        Ok(Cluster { servers: log.servers.clone(), node, snapshots: self.snapshots.clone() })
    }
}

/// Makes a store that several nodes share: its log, and the directory of its first node.
pub fn init(dir: &Path, log: &LogAddress, part: &NodePart, config: Option<&Path>, show: Show) -> Result<bool> {
    if log.store.is_some() {
        bail!("the address names a store, which is there already; run `terrace node --join` to join it");
    }
    let config = Config::read(config.context("a shared store needs a configuration; give --config FILE")?)?;
    Cluster::check(&config)?;
    let (cluster, id) = (part.with(log)?, Store::new_id()?);
    let order = make_log(&cluster, id)?;
    Store::init_node(dir, id, &cluster)?;
    SharedNode::start(dir, order, Some(&config))?.end()?;
    let address = LogAddress::of(&cluster, id);
    let words = format!(
        "a store whose log is at {address} is ready in {}; run `terrace node` here, and on other machines `terrace node --join {address} --name NAME`",
        path_name(dir)
    );
    show.result(&json!({"store": dir.display().to_string(), "log": address}), &words)?;
    Ok(true)
}

/// Makes the directory of another node of a store, unless it is there.
pub fn join(dir: &Path, log: &LogAddress, part: &NodePart) -> Result<()> {
    let id = log
        .store
        .context("the address names no store; write etcd://HOST:PORT/STORE as `terrace init --cluster` printed it")?;
    let cluster = part.with(log)?;
    match Cluster::read(dir)? {
        None => {
            // A wrong address must not leave a directory behind.
            open_log(&cluster, id)?;
            Ok(Store::init_node(dir, id, &cluster)?)
        }
        Some(known) if known == cluster => Ok(()),
        Some(_) => bail!("{} belongs to another node or log; name another directory", path_name(dir)),
    }
}

/// Starts this machine's node, if several nodes share the store in `dir`.
pub fn start(dir: &Path) -> Result<Option<SharedNode>> {
    let Some(cluster) = Cluster::read(dir)? else { return Ok(None) };
    let order = open_log(&cluster, Store::read_id(dir)?)?;
    Ok(Some(SharedNode::start(dir, order, None)?))
}

#[cfg(feature = "cluster")]
fn make_log(cluster: &Cluster, store: u64) -> Result<Box<dyn Order + Send + Sync>> {
    terrace_order::Etcd::make(&options(cluster, store))?;
    open_log(cluster, store)
}

#[cfg(feature = "cluster")]
fn open_log(cluster: &Cluster, store: u64) -> Result<Box<dyn Order + Send + Sync>> {
    Ok(Box::new(terrace_order::Etcd::open(options(cluster, store))?))
}

#[cfg(feature = "cluster")]
fn options(cluster: &Cluster, store: u64) -> terrace_order::EtcdOptions {
    terrace_order::EtcdOptions::new(cluster.servers.clone(), store, &cluster.node)
}

#[cfg(not(feature = "cluster"))]
use open_log as make_log;

#[cfg(not(feature = "cluster"))]
fn open_log(_: &Cluster, _: u64) -> Result<Box<dyn Order + Send + Sync>> {
    bail!("this terrace was built without shared stores; build one with `cargo build --features cluster`")
}
