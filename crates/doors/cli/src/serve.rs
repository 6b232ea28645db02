//! `terrace serve`: serves until a signal arrives.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use terrace::config::Bytes;
use terrace::{Files, Store};
use terrace_kit::{Certificate, Traffic};
use terrace_nine::{Address, Limits, serve_files};
use terrace_node::MetricsServer;
use terrace_redis::{Dialect, Password, RedisLimits, RedisOptions, RedisServer};
use terrace_s3::{Keys, S3Options};

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
    /// Serve the store to clients of S3.
    ///
    /// A folder at the top of the store is a bucket. Without --keys, everybody on this machine may read and write everything; with
    /// it, clients sign their requests. Serves until Ctrl-C or SIGTERM.
    ///
    /// Example: terrace serve s3 --keys keys.txt
    ///
    /// Example: terrace serve s3 --listen 0.0.0.0:443 --keys keys.txt --certificate cert.pem --private-key key.pem
    #[command(name = "s3")]
    S3(S3),
    /// Serve keys and values to clients of Redis.
    ///
    /// Serves until Ctrl-C or SIGTERM. Databases 0 to 15 are the folders `redis/0` to `redis/15` of the store, where each string is an object.
    ///
    /// Example: terrace serve redis --listen 127.0.0.1:6379
    Redis(Redis),
    /// Serve keys and values to clients of memcached.
    ///
    /// Serves until Ctrl-C or SIGTERM. Items are the strings of database 0 of `terrace serve redis`, so that one store can be served by both.
    ///
    /// Example: terrace serve memcached --listen 127.0.0.1:11211
    Memcached(Memcached),
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

#[derive(Args)]
pub struct S3 {
    /// Listen on this address; port 0 chooses a free one. An address that other machines reach needs --keys and --certificate.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5643")]
    listen: SocketAddr,
    /// Let in only clients of this file, which has a line `ACCESS SECRET` for each, and the mode 600.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    #[command(flatten)]
    tls: Tls,
    /// Take the bucket from the name of the host, if that is a subdomain of this one. Otherwise the path begins with it.
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    #[command(flatten)]
    counted: Counted,
    /// Accept this many connections at a time; others wait.
    #[arg(long, value_name = "COUNT", default_value_t = S3Options::MAX_CONNECTIONS, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_connections: u32,
}

#[derive(Args)]
pub struct Redis {
    /// Listen on this address; port 0 chooses a free one. An address that other machines reach needs --password-file and --certificate.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6379")]
    listen: SocketAddr,
    #[command(flatten)]
    values: Values,
}

#[derive(Args)]
pub struct Memcached {
    /// Listen on this address; port 0 chooses a free one. An address that other machines reach needs --password-file and --certificate.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:11211")]
    listen: SocketAddr,
    /// Refuse longer values.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=512 << 20))]
    max_item_size: u32,
    #[command(flatten)]
    values: Values,
}

/// How connections are encrypted.
#[derive(Args)]
struct Tls {
    /// Speak TLS with this certificate, in PEM, with those that lead to its authority behind it.
    #[arg(long, value_name = "FILE", requires = "private_key")]
    certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    private_key: Option<PathBuf>,
}

impl Tls {
    fn read(&self) -> Result<Option<Certificate>> {
        let files = self.certificate.as_deref().zip(self.private_key.as_deref());
        Ok(files.map(|(certificate, key)| Certificate::read(certificate, key)).transpose()?)
    }
}

/// Where the counts of a server are shown.
#[derive(Args)]
struct Counted {
    /// Show metrics for Prometheus at http://ADDRESS:PORT/metrics, to this machine only; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

impl Counted {
    fn begin(&self, protocol: &'static str, traffic: &Traffic) -> Result<Option<MetricsServer>> {
        let begin = |address| MetricsServer::begin(address, protocol, traffic.clone());
        Ok(self.metrics.map(begin).transpose()?)
    }
}

/// The end of the line that says where a server listens.
fn tell_metrics(metrics: Option<&MetricsServer>) -> String {
    metrics.map_or_else(String::new, |metrics| format!(", metrics on http://{}/metrics", metrics.address()))
}

/// The settings of servers of keys and values.
#[derive(Args)]
struct Values {
    /// Listen on a Unix socket instead, which only this user can open.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "certificate"])]
    unix: Option<PathBuf>,
    #[command(flatten)]
    counted: Counted,
    /// Keep the databases in this folder of the store.
    #[arg(long, value_name = "FOLDER", default_value = "redis")]
    folder: OsString,
    /// Ask clients for the password in this file, which only its owner may read.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    #[command(flatten)]
    tls: Tls,
    /// Serve with this many threads; more than the machine has cores help if tiers answer slowly.
    #[arg(long, value_name = "NUMBER", default_value_t = RedisOptions::default().threads)]
    threads: usize,
    /// Turn away clients beyond this number.
    #[arg(long, value_name = "NUMBER", default_value_t = RedisLimits::default().connections)]
    max_clients: usize,
    /// Hold at most this much for all clients, of requests on their way and of replies that are not received; then disconnect those that hold most.
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(RedisLimits::default().memory as u64))]
    max_client_memory: Bytes,
    /// Close a connection that was idle for this long; 0 means never.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u64,
}

pub fn serve(globals: &Globals, wanted: &Serve) -> Result<()> {
    match wanted {
        Serve::Nine(wanted) => serve_nine(globals, wanted),
        Serve::S3(wanted) => serve_s3(globals, wanted),
        Serve::Redis(wanted) => serve_values(globals, wanted.listen, &wanted.values, Dialect::Redis),
        Serve::Memcached(wanted) => {
            let max_item_bytes = wanted.max_item_size as usize;
            serve_values(globals, wanted.listen, &wanted.values, Dialect::Memcached { max_item_bytes })
        }
    }
}

/// Serves the store until a signal arrives. `begin` returns the end of the line that says how and where, and a function that ends the
/// server.
fn serve_until_signal<E: FnOnce() -> Result<()>>(
    globals: &Globals,
    begin: impl FnOnce(&Store) -> Result<(String, E)>,
) -> Result<()> {
    let signals = catch_signals()?;
    let store = opening::open(&globals.store()?, Show { json: globals.json, quiet: globals.quiet })?;
    let (place, end) = begin(&store)?;
    say(&format!("{} is served {place}", store.dir().display()));
    wait_for_signal(signals);
    end()?;
    Ok(store.close()?)
}

fn serve_s3(globals: &Globals, wanted: &S3) -> Result<()> {
    let options = S3Options {
        listen: wanted.listen,
        keys: wanted.keys.as_deref().map(Keys::read).transpose()?,
        certificate: wanted.tls.read()?,
        domain: wanted.domain.clone(),
        max_connections: wanted.max_connections,
    };
    let scheme = if options.certificate.is_some() { "https" } else { "http" };
    serve_until_signal(globals, |store| {
        let server = terrace_s3::Server::begin(store, options)?;
        let metrics = wanted.counted.begin("s3", server.traffic())?;
        let place = format!("by S3 on {scheme}://{}{}", server.address(), tell_metrics(metrics.as_ref()));
        Ok((place, move || {
            drop(server);
            drop(metrics);
            Ok(())
        }))
    })
}

fn serve_values(globals: &Globals, listen: SocketAddr, wanted: &Values, dialect: Dialect) -> Result<()> {
    let password = wanted.password_file.as_deref().map(Password::read).transpose()?;
    let certificate = wanted.tls.read()?;
    let address = wanted.unix.clone().map_or(Address::Tcp(listen), Address::Unix);
    let idle = (wanted.idle_timeout > 0).then(|| Duration::from_secs(wanted.idle_timeout));
    let limits = RedisLimits { connections: wanted.max_clients, memory: wanted.max_client_memory.0 as usize, idle };
    let folder = wanted.folder.as_bytes().to_vec();
    let options = RedisOptions { dialect, folder, threads: wanted.threads, limits, password, certificate };
    serve_until_signal(globals, |store| {
        let server = RedisServer::begin(store, &address, options)?;
        let metrics = wanted.counted.begin(dialect.label(), server.traffic())?;
        let place = format!("to clients of {dialect} on {}{}", server.address(), tell_metrics(metrics.as_ref()));
        Ok((place, move || {
            drop(server);
            drop(metrics);
            Ok(())
        }))
    })
}

fn serve_nine(globals: &Globals, wanted: &Nine) -> Result<()> {
    let address = wanted.unix.clone().map_or(Address::Tcp(wanted.listen), Address::Unix);
    let idle = (wanted.idle_timeout > 0).then(|| Duration::from_secs(wanted.idle_timeout));
    let limits = Limits { idle, ..Limits::default() };
    serve_until_signal(globals, |store| {
        let files = Files::new(store)?;
        let server = serve_files(&files, &address, wanted.trust_network, limits)?;
        let place = format!("by 9P2000 on {}", server.address());
        Ok((place, move || {
            drop(server);
            Ok(files.flush()?)
        }))
    })
}
