//! `terrace serve`: serves until a signal arrives.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use terrace::Files;
use terrace_nine::{Address, Limits, Server};

use crate::globals::Globals;
use crate::interrupt::{catch_signals, say, wait_for_signal};
use crate::opening;
use crate::output::Show;

#[derive(Subcommand)]
pub enum Serve {
    /// Serve the store as a file system over 9P2000.
    ///
    /// Serves until Ctrl-C or SIGTERM. 9P has no authentication: every client that reaches the address can read and write everything.
    ///
    /// Example: terrace serve 9p --unix /run/terrace.sock
    #[command(name = "9p")]
    Nine(Nine),
}

#[derive(Args)]
pub struct Nine {
    /// Listen on this address; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5640")]
    listen: SocketAddr,
    /// Listen on a Unix socket instead, which only this user can open.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "trust_network"])]
    unix: Option<PathBuf>,
    /// Accept other machines. Use it only in networks that you trust: 9P neither authenticates nor encrypts.
    #[arg(long)]
    trust_network: bool,
    /// Close a connection that was idle for this long; 0 means never.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().idle.map_or(0, |idle| idle.as_secs()))]
    idle_timeout: u64,
}

pub fn serve(globals: &Globals, Serve::Nine(wanted): &Serve) -> Result<()> {
    let signals = catch_signals()?;
    let store = opening::open(&globals.store()?, Show { json: globals.json, quiet: globals.quiet })?;
    let files = Files::new(&store)?;
    let address = wanted.unix.clone().map_or(Address::Tcp(wanted.listen), Address::Unix);
    let idle = (wanted.idle_timeout > 0).then(|| Duration::from_secs(wanted.idle_timeout));
    let limits = Limits { idle, ..Limits::default() };
    let mut server = Server::begin(&files, &address, wanted.trust_network, limits)?;
    say(&format!("{} is served by 9P2000 on {}", store.dir().display(), server.address()));
    wait_for_signal(signals);
    server.end();
    drop(server);
    files.flush()?;
    drop(files);
    Ok(store.close()?)
}
