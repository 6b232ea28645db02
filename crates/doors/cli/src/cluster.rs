//! Stores that several nodes share, and the address of their log.

use std::path::{self, Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use terrace::config::Time;
use terrace::report::NodeTarget;
use terrace::{Access, Cluster, Config, Consistency, SharedNode, Store};
use terrace_order::{LogIdentity, OfferedSnapshot, Order, OrderError};

use crate::output::{Show, count, name, path_name, size};

#[cfg(not(feature = "cluster"))]
const WITHOUT_CLUSTERS: &str =
    "this terrace was built without shared stores; build one with `cargo build --features cluster`";

const NO_SHARED_LOG: &str = "this store belongs to one machine, and has no shared log";
/// The time between two looks at a store that is waited for.
const NODES_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The first words of each part of a file in PEM.
#[cfg(feature = "cluster")]
const PEM_START: &[u8] = b"-----BEGIN ";

/// The address of a log: `etcd://HOST:PORT,.../STORE`, or `etcds://` with TLS.
#[derive(Clone)]
pub struct LogAddress {
    servers: Vec<String>,
    /// None for a store that is to be made.
    store: Option<u64>,
}

impl FromStr for LogAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<LogAddress, String> {
        let wrong =
            || format!("{text:?} is no address of a log; write etcd://HOST:PORT,HOST:PORT/STORE, or etcds:// with TLS");
        let secure = text.strip_prefix("etcds://");
        let (scheme, rest) = match secure {
            Some(rest) => ("https", rest),
            None => ("http", text.strip_prefix("etcd://").ok_or_else(wrong)?),
        };
        let (hosts, store) = rest.split_once('/').unwrap_or((rest, ""));
        let is_host = |host: &str| host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if !hosts.split(',').all(is_host) {
            return Err(wrong());
        }
        let store = match store {
            "" => None,
            id => Some(u64::from_str_radix(id, 16).map_err(|_| wrong())?),
        };
        Ok(LogAddress { servers: hosts.split(',').map(|host| format!("{scheme}://{host}")).collect(), store })
    }
}

impl LogAddress {
    /// The address of a store's log, as `--join` takes it.
    fn of(cluster: &Cluster, store: u64) -> String {
        let hosts: Vec<&str> =
            cluster.servers.iter().filter_map(|server| server.split_once("://")).map(|(_, host)| host).collect();
        let is_secure = cluster.servers.iter().any(|server| server.starts_with("https://"));
        format!("{}://{}/{store:016x}", if is_secure { "etcds" } else { "etcd" }, hosts.join(","))
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
    /// Certificates of authorities, in PEM, by which the servers of an etcds:// address are checked.
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// This machine's certificate for etcd, in PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_certificate: Option<PathBuf>,
    /// The key of that certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "etcd_certificate")]
    etcd_key: Option<PathBuf>,
    /// The name of a user of etcd.
    #[arg(long, value_name = "NAME", requires = "etcd_password")]
    etcd_user: Option<String>,
    /// The file with that user's password.
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password: Option<PathBuf>,
}

impl NodePart {
    /// Returns whether any of it was given.
    pub fn is_given(&self) -> bool {
        let NodePart { name, snapshots, etcd_ca, etcd_certificate, etcd_key, etcd_user, etcd_password } = self;
        let paths = [snapshots, etcd_ca, etcd_certificate, etcd_key, etcd_password];
        name.is_some() || etcd_user.is_some() || paths.iter().any(|path| path.is_some())
    }

    fn with(&self, log: &LogAddress) -> Result<Cluster> {
        let node = self.name.clone().context("the node has no name; give --name NAME")?;
        let whole =
            |path: &Option<PathBuf>| path.as_deref().map(path::absolute).transpose().context("the working directory");
        let access = Access {
            authorities: whole(&self.etcd_ca)?,
            certificate: whole(&self.etcd_certificate)?,
            key: whole(&self.etcd_key)?,
            user: self.etcd_user.clone(),
            password: whole(&self.etcd_password)?,
        };
        let (servers, snapshots) = (log.servers.clone(), whole(&self.snapshots)?);
        Ok(Cluster { servers, node, snapshots, consistency: Consistency::default(), access })
    }
}

/// Waits until a store is there, with all its nodes, and opens it.
pub fn wait_for_nodes(dir: &Path, patience: Time) -> Result<Store> {
    let until = Instant::now() + patience.0;
    loop {
        let opened = Store::open(dir);
        if let Ok(store) = &opened
            && store.nodes()?.iter().all(|node| node.is_there)
        {
            return Ok(store.clone());
        }
        if Instant::now() > until {
            // If only nodes are missing, they are shown.
            return Ok(opened?);
        }
        // Closed meanwhile, so that its node can end.
        drop(opened);
        thread::sleep(NODES_POLL_INTERVAL);
    }
}

/// Shows the nodes that share a store. Returns false if one of them is away.
pub fn status(store: &Store, show: Show) -> Result<bool> {
    let nodes = store.nodes()?;
    if nodes.is_empty() {
        bail!("this store belongs to one machine; `terrace init --cluster` makes one that several share");
    }
    let (last, _) = store.commits()?;
    let mut words = Vec::new();
    for node in &nodes {
        let state = if node.is_there { "there" } else { "away" };
        words.push(format!("{}  {state}, at commit {} of {last}", name(node.name.as_bytes()), node.reported));
        for NodeTarget { tier, path, frames, bytes, synced, is_doubtful, .. } in &node.targets {
            let doubt = if *is_doubtful { ", being verified after a loss of power" } else { "" };
            let held = format!("{} ({})", count(*frames, "replica"), size(*bytes));
            words.push(format!("  {tier}  {path}  {held}, synced up to commit {synced}{doubt}"));
        }
    }
    show.result(&json!({"commit": last, "nodes": nodes}), &words.join("\n"))?;
    Ok(nodes.iter().all(|node| node.is_there || node.targets.is_empty()))
}

/// Raises the format of the log. Returns false if a node does not know the newest one.
#[cfg(feature = "cluster")]
pub fn upgrade(dir: &Path, show: Show) -> Result<bool> {
    let store = Store::read_id(dir)?;
    let cluster = Cluster::read(dir)?.context(NO_SHARED_LOG)?;
    let terrace_order::LogFormat { before, now, known, nodes } =
        terrace_order::Etcd::open(options(&cluster, store)?)?.raise_format()?;
    let behind: Vec<&String> = nodes.iter().filter(|(_, newest)| **newest < known).map(|(node, _)| node).collect();
    let mut words = match now {
        same if same == before => format!("the shared log has format {now}"),
        _ => format!("the shared log has format {now}, and had format {before}"),
    };
    if let [first, more @ ..] = &behind[..] {
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        words += &format!(
            "; this program knows format {known}, but node {first}{more} does not: put the new program there, start it again, and repeat this"
        );
    }
    show.result(&json!({"before": before, "format": now, "known": known, "behind": behind}), &words)?;
    Ok(behind.is_empty())
}

#[cfg(not(feature = "cluster"))]
pub fn upgrade(_: &Path, _: Show) -> Result<bool> {
    bail!(WITHOUT_CLUSTERS)
}

/// Makes the log of a store again.
pub fn recover(dir: &Path, force: bool, show: Show) -> Result<bool> {
    let store = Store::read_id(dir)?;
    let cluster = Cluster::read(dir)?.context(NO_SHARED_LOG)?;
    let make = log_maker(&cluster, store, force)?;
    let records = SharedNode::recover(dir, make)?;
    let words =
        format!("the shared log is made again, with {} of the lost one; start the nodes", count(records, "record"));
    show.result(&json!({"records": records}), &words)?;
    Ok(true)
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
        // The user may have asked for another consistency since.
        Some(known) if known == Cluster { consistency: known.consistency, ..cluster } => Ok(()),
        Some(_) => bail!("{} belongs to another node or log; name another directory", path_name(dir)),
    }
}

/// Starts this machine's node, if several nodes share the store in `dir`.
pub fn start(dir: &Path) -> Result<Option<SharedNode>> {
    let Some(cluster) = Cluster::read(dir)? else { return Ok(None) };
    let order = open_log(&cluster, Store::read_id(dir)?)?;
    Ok(Some(SharedNode::start(dir, order, None)?))
}

/// Returns an error if this program has no client of etcd.
#[cfg(feature = "cluster")]
pub fn check_built() -> Result<()> {
    Ok(())
}

#[cfg(not(feature = "cluster"))]
pub fn check_built() -> Result<()> {
    bail!(WITHOUT_CLUSTERS)
}

/// Makes the log of a store, and opens it.
#[cfg(feature = "cluster")]
pub fn make_log(cluster: &Cluster, store: u64) -> Result<Box<dyn Order + Send + Sync>> {
    terrace_order::Etcd::make(&options(cluster, store)?)?;
    open_log(cluster, store)
}

/// Returns what makes a log again from a snapshot.
#[cfg(feature = "cluster")]
pub fn log_maker(
    cluster: &Cluster,
    store: u64,
    force: bool,
) -> Result<impl FnOnce(LogIdentity, &OfferedSnapshot) -> Result<(), OrderError> + use<>> {
    let options = options(cluster, store)?;
    Ok(move |identity, snapshot: &OfferedSnapshot| terrace_order::Etcd::make_again(&options, identity, snapshot, force))
}

/// Opens the log of a store.
#[cfg(feature = "cluster")]
pub fn open_log(cluster: &Cluster, store: u64) -> Result<Box<dyn Order + Send + Sync>> {
    Ok(Box::new(terrace_order::Etcd::open(options(cluster, store)?)?))
}

#[cfg(feature = "cluster")]
fn options(cluster: &Cluster, store: u64) -> Result<terrace_order::EtcdOptions> {
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("reading {}", path_name(path)));
    let read_pem = |path: &PathBuf| {
        let bytes = read(path)?;
        let is_pem = bytes.windows(PEM_START.len()).any(|part| part == PEM_START);
        if is_pem { Ok(bytes) } else { bail!("{} is no certificate or key in PEM", path_name(path)) }
    };
    let Access { authorities, certificate, key, user, password } = &cluster.access;
    let mut options = terrace_order::EtcdOptions::new(cluster.servers.clone(), store, &cluster.node);
    options.access.authorities = authorities.as_ref().map(read_pem).transpose()?;
    if let (Some(certificate), Some(key)) = (certificate, key) {
        options.access.identity = Some((read_pem(certificate)?, read_pem(key)?));
    }
    if let (Some(user), Some(password)) = (user, password) {
        let password = String::from_utf8(read(password)?).context("the password of etcd's user")?;
        options.access.user = Some((user.clone(), password.trim_end_matches('\n').to_owned()));
    }
    Ok(options)
}

#[cfg(not(feature = "cluster"))]
pub use open_log as make_log;

#[cfg(not(feature = "cluster"))]
pub fn open_log(_: &Cluster, _: u64) -> Result<Box<dyn Order + Send + Sync>> {
    bail!(WITHOUT_CLUSTERS)
}

#[cfg(not(feature = "cluster"))]
pub type MakeLog = fn(LogIdentity, &OfferedSnapshot) -> Result<(), OrderError>;

#[cfg(not(feature = "cluster"))]
pub fn log_maker(_: &Cluster, _: u64, _: bool) -> Result<MakeLog> {
    bail!(WITHOUT_CLUSTERS)
}
