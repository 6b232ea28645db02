//! `terrace node`: runs the store's daemon until a signal arrives.

use std::io::Write;
use std::net::SocketAddr;
use std::process;
use std::thread;

use anyhow::{Context, Result};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace::config::Time;

use crate::globals::Globals;
use crate::opening;
use crate::output::Show;

#[derive(Args)]
pub struct Node {
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
}

pub fn node(globals: &Globals, wanted: &Node) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("listening for signals")?;
    let store = opening::open(&globals.store()?, Show { json: globals.json, quiet: globals.quiet })?;
    let dir = store.dir().to_owned();
    let mut options = terrace_node::Options::default();
    options.listen = (!wanted.no_listen).then_some(wanted.listen);
    options.trust_network = wanted.trust_network;
    options.scrub_interval = (!wanted.scrub_every.0.is_zero()).then_some(wanted.scrub_every.0);
    let waiting = signals.handle();
    let node = terrace_node::Node::begin(store, &options, move || waiting.close())?;
    let mut out = std::io::stdout();
    let place = node.address().map_or_else(String::new, |address| format!(" at http://{address}/"));
    // The reader of this line may have gone, which is not an error.
    let _ = writeln!(out, "the node of {} runs{place}", dir.display());
    let _ = out.flush();
    if signals.forever().next().is_some() {
        // The second signal ends the process at once.
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                process::exit(128 + signal);
            }
        });
    }
    Ok(node.end()?)
}
