//! [`RedisServer`]: begins and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use mio::{Poll, Waker};
use rustix::process::{Resource, getrlimit, setrlimit};
use terrace::key::{KeyRule, KeySpace};
use terrace::{Error, Store};
use terrace_kit::{Address, Certificate, Listener, Reach, Traffic};

use crate::channels::Channels;
use crate::error::RedisServeError;
use crate::executor::Executor;
use crate::limits::{Dialect, RedisLimits};
use crate::mailbox::Mailbox;
use crate::password::Password;
use crate::server_facts::{DATABASE_COUNT, ServerFacts};
use crate::stream::RedisListener;
use crate::waiters::Waiters;
use crate::worker::{MAIL_TOKEN, RedisWorker, Workplace};

/// Descriptors that the store needs beside those of connections.
const OTHER_DESCRIPTORS: u64 = 1024;

/// The reason to refuse other machines.
const OPEN_ADVICE: &str = "which needs --password-file, so that not everybody may read and write, and --certificate with \
                           --private-key, so that nobody overhears them; or listen on 127.0.0.1 and forward the port by ssh";

/// How a server serves.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The protocol.
    pub dialect: Dialect,
    /// The folder of the databases.
    pub folder: Vec<u8>,
    /// The number of threads.
    pub threads: usize,
    /// The limits on connections.
    pub limits: RedisLimits,
    /// The password that clients must give.
    pub password: Option<Password>,
    /// The certificate for TLS on a TCP port. A Unix socket needs none.
    pub certificate: Option<Certificate>,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let (dialect, limits) = (Dialect::default(), RedisLimits::default());
        RedisOptions { dialect, folder: b"redis".to_vec(), threads, limits, password: None, certificate: None }
    }
}

/// A running server. Dropping it ends it.
pub struct RedisServer {
    address: Address,
    shared: Arc<Workplace>,
    threads: Vec<JoinHandle<()>>,
}

impl RedisServer {
    /// Serves the key spaces below a folder, which are created if they are missing: one for each database.
    ///
    /// # Errors
    /// If the system refuses the address, other machines can reach it, or the folder is used for something else.
    pub fn begin(store: &Store, address: &Address, options: RedisOptions) -> Result<RedisServer, RedisServeError> {
        let databases: Result<Vec<KeySpace>, RedisServeError> =
            (0..DATABASE_COUNT).map(|number| database(store, &options.folder, number)).collect();
        let databases = databases?;
        allow_descriptors(options.limits.connections);
        // Without a password that others cannot hear, everybody who reaches the address has everything.
        let is_protected = options.password.is_some() && options.certificate.is_some();
        let reach = if is_protected { Reach::Anywhere } else { Reach::ThisMachine(OPEN_ADVICE) };
        let listener = Listener::bind(address, reach)?;
        let address = listener.address();
        let listener = RedisListener::new(listener, options.certificate.clone())?;
        let port = if let Address::Tcp(address) = &address { address.port() } else { 0 };
        let (mut polls, mut mailboxes) = (Vec::new(), Vec::new());
        for _ in 0..options.threads.max(1) {
            let poll = Poll::new()?;
            mailboxes.push(Arc::new(Mailbox::new(Waker::new(poll.registry(), MAIL_TOKEN)?)));
            polls.push(poll);
        }
        let channels = Channels::new(mailboxes.clone());
        let RedisOptions { dialect, limits, password, .. } = options;
        let facts = Arc::new(ServerFacts::new(dialect, limits, port, password, channels));
        let shared = Arc::new(Workplace {
            executor: Executor::new(store.clone(), databases, facts.clone()),
            waiters: Waiters::new(facts.clone(), mailboxes.clone()),
            facts,
            mailboxes,
            is_ending: AtomicBool::new(false),
            next_worker: AtomicUsize::new(0),
        });
        // Dropped on an error, it ends the threads that have begun.
        let mut server = RedisServer { address, shared: shared.clone(), threads: Vec::new() };
        let mut listener = Some(listener);
        for (number, poll) in polls.into_iter().enumerate() {
            let worker = RedisWorker::new(number, shared.clone(), poll, listener.take())?;
            let thread = thread::Builder::new().name(format!("terrace-redis-{number}"));
            server.threads.push(thread.spawn(move || worker.run())?);
        }
        Ok(server)
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The counts of what the server does.
    pub fn traffic(&self) -> &Traffic {
        &self.shared.facts.traffic
    }

    /// Lets the requests in progress finish, sends their replies, and closes all connections.
    pub fn end(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        self.shared.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        // A thread that panicked has said so already.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end();
        }
    }
}

/// Finds or creates the key space of a database.
fn database(store: &Store, folder: &[u8], number: usize) -> Result<KeySpace, RedisServeError> {
    let folder = [folder, b"/", number.to_string().as_bytes()].concat();
    let space = match store.key_space(&folder) {
        Err(Error::NotFound { .. }) => match store.make_key_space(&folder, KeyRule::Flat) {
            // Another server has just made it.
            Err(Error::Conflict { .. }) => store.key_space(&folder),
            made => made,
        },
        found => found,
    }?;
    match space.rule() {
        KeyRule::Flat => Ok(space),
        KeyRule::Paths => Err(RedisServeError::NotFlat { folder: String::from_utf8_lossy(&folder).into_owned() }),
    }
}

/// Raises the process's own limit of descriptors, as far as it may.
fn allow_descriptors(connections: usize) {
    let needed = connections as u64 + OTHER_DESCRIPTORS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        limit.current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files stays low, so fewer clients can connect");
        }
    }
}
