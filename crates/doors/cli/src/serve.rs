//! `terrace serve`: serves until a signal arrives.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use terrace::Files;
use terrace_nine::{Address, Limits, Server};

use crate::arguments::Arguments;
use crate::opening;
use crate::output::Show;

#[derive(Subcommand)]
pub enum Serve {
    /// Serve by 9P2000 until Ctrl-C or SIGTERM. It has no authentication: whoever reaches it reads and writes everything.
    #[command(name = "9p")]
    Nine(Nine),
}

#[derive(Args)]
pub struct Nine {
    /// Where to listen; a port of 0 is any.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5640")]
    listen: SocketAddr,
    /// Listen on a socket of the file system instead, which only this user may use.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "trust_network"])]
    unix: Option<PathBuf>,
    /// Let other machines in. 9P has no authentication and hides nothing: only where the network is trusted.
    #[arg(long)]
    trust_network: bool,
    /// End a connection that has not asked for anything for so long; 0 is never.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().idle.map_or(0, |idle| idle.as_secs()))]
    idle_timeout: u64,
}

pub fn serve(arguments: &Arguments, Serve::Nine(wanted): &Serve) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("listening for signals")?;
    let store = opening::open(&arguments.store()?, Show { json: arguments.json, quiet: arguments.quiet })?;
    let files = Files::new(&store)?;
    let address = wanted.unix.clone().map_or(Address::Tcp(wanted.listen), Address::Unix);
    let idle = (wanted.idle_timeout > 0).then(|| Duration::from_secs(wanted.idle_timeout));
    let limits = Limits { idle, ..Limits::default() };
    let mut server = Server::begin(&files, &address, wanted.trust_network, limits)?;
    let mut out = std::io::stdout();
    // The reader of this line may have gone, which is not an error.
    let _ = writeln!(out, "{} is served by 9P2000 on {}", store.dir().display(), server.address());
    let _ = out.flush();
    signals.forever().next();
    // The second signal ends the process at once.
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            process::exit(128 + signal);
        }
    });
    server.end();
    drop(server);
    files.flush()?;
    drop(files);
    Ok(store.close()?)
}
