//! `terrace node`: runs the store's daemon until a signal arrives.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use signal_hook::iterator::Signals;
use terrace::config::Time;
use terrace::{SharedNode, Store};
use terrace_node::Targets;

use crate::cluster::{self, LogAddress, NodePart};
use crate::globals::Globals;
use crate::interrupt::{catch_signals, say, wait_for_signal};
use crate::opening;
use crate::output::Show;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Node {
    #[command(subcommand)]
    pub change: Option<NodeChange>,
    /// Listen on this address; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5641")]
    listen: SocketAddr,
    /// Do not listen.
    #[arg(long, conflicts_with = "listen")]
    no_listen: bool,
    /// Accept other machines. Everybody who reaches the address can read the state of the store, but no data.
    #[arg(long, conflicts_with = "no_listen")]
    trust_network: bool,
    /// Verify each replica once in this time, and replace bad ones; 0s means never.
    #[arg(long, value_name = "TIME", default_value = "7d")]
    scrub_every: Time,
    /// Serve the directories that this file describes to the stores of other machines.
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// Only serve targets; use no store.
    #[arg(long, requires = "targets", conflicts_with_all = ["listen", "no_listen", "trust_network", "scrub_every"])]
    without_store: bool,
    /// Join the nodes that share a store, whose log is at etcd://HOST:PORT/STORE. Only the first time is this needed.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "without_store")]
    join: Option<LogAddress>,
    #[command(flatten)]
    part: NodePart,
}

/// A change of a node of a shared store. Any node can carry it out.
#[derive(Subcommand)]
pub enum NodeChange {
    /// Add a target of a node to a tier. The node may join before or later; until it serves the target, that is away.
    ///
    /// Example: terrace node add d --tier disk --target https://10.0.0.4:7000/disk --fingerprint 3b0c...
    Add {
        /// The node.
        name: String,
        /// The tier.
        #[arg(long)]
        tier: String,
        /// The target, as it is written in the configuration.
        #[arg(long, value_name = "ADDRESS")]
        target: PathBuf,
        /// The fingerprint of the node's certificate, as the node prints it when it starts.
        #[arg(long, value_name = "HEX")]
        fingerprint: Option<String>,
    },
    /// Move everything off a node's targets, so that the node can be stopped.
    ///
    /// The replicas of a node that is away are made from others. A node that runs still gets new replicas.
    Drain {
        /// The node.
        name: String,
    },
    /// Take a node out of the store for good, with its targets. Its files stay where they are.
    ///
    /// The node is drained first. If it is away and holds bytes that are nowhere else, nothing is done.
    Remove {
        /// The node.
        name: String,
        /// Lose what only that node holds.
        #[arg(long)]
        force: bool,
    },
}

pub fn node(globals: &Globals, wanted: &Node) -> Result<()> {
    let signals = catch_signals()?;
    if let Some(log) = &wanted.join {
        cluster::join(&globals.store()?, log, &wanted.part)?;
    }
    let shared = if wanted.without_store { None } else { cluster::start(&globals.store()?)? };
    let numbers = shared.as_ref().map(SharedNode::numbers);
    // Before the store, which may have a tier on a target of this very machine.
    let targets = wanted.targets.as_deref().map(|file| Targets::begin(file, numbers)).transpose()?;
    if let Some(targets) = &targets {
        say(&format!("the node {}", targets.describe()));
    }
    let done = match wanted.without_store {
        true => {
            wait_for_signal(signals);
            Ok(())
        }
        false => keep_store(globals, wanted, shared, targets.as_ref(), signals),
    };
    if let Some(targets) = targets {
        targets.end();
    }
    done
}

/// Runs the daemon of a store until a signal arrives.
fn keep_store(
    globals: &Globals,
    wanted: &Node,
    shared: Option<SharedNode>,
    targets: Option<&Targets>,
    signals: Signals,
) -> Result<()> {
    let store = match &shared {
        None => opening::open(&globals.store()?, Show { json: globals.json, quiet: globals.quiet })?,
        Some(shared) => {
            let store = Store::open_on_node(&globals.store()?, shared)?;
            shared.serve(&store)?;
            store
        }
    };
    let dir = store.dir().to_owned();
    let mut options = terrace_node::Options::default();
    options.listen = (!wanted.no_listen).then_some(wanted.listen);
    options.trust_network = wanted.trust_network;
    options.scrub_interval = (!wanted.scrub_every.0.is_zero()).then_some(wanted.scrub_every.0);
    let signal_handle = signals.handle();
    let node = begin(store, shared, targets, &options, move || signal_handle.close())?;
    let place = node.address().map_or_else(String::new, |address| format!(" at http://{address}/"));
    say(&format!("the node of {} runs{place}", dir.display()));
    wait_for_signal(signals);
    Ok(node.end()?)
}

/// Begins the daemon of an open store, which also takes requests for its streams where targets are served. `failed` is called when it
/// cannot go on.
pub fn begin(
    store: Store,
    shared: Option<SharedNode>,
    targets: Option<&Targets>,
    options: &terrace_node::Options,
    failed: impl Fn() + Clone + Send + 'static,
) -> Result<terrace_node::Node> {
    let node = terrace_node::Node::begin(store, shared, options, failed)?;
    if let Some(targets) = targets {
        targets.take_streams_of(&node);
    }
    Ok(node)
}
