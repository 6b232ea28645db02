//! The log that an etcd cluster keeps. etcd orders the records, keeps them on most of its members, and ends the fence of a node that is
//! silent.
//!
//! All keys of a store are below `/terrace/<store's number in hexadecimal>/`; `docs/format.md` lists them, and `docs/design.md` argues the
//! protocol. It relies on three things of etcd: a transaction happens whole or not at all; a key's version counts its puts since it was
//! created, and its create revision is never given twice; and reads are linearizable.

mod append;
mod events;
mod fence;
mod follow;
mod keys;
mod list;
mod members;
mod offers;
mod recover;
mod state;
mod trim;
mod upgrade;
mod version;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::{Answer, Append, LogIdentity, OfferedSnapshot, Order, OrderError, Records};
use fence::Fence;
use follow::Follower;
use keys::Keys;
use members::Members;
use state::Core;
pub use upgrade::LogFormat;

/// How a node uses etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The addresses of the cluster's members, such as `http://10.0.0.1:2379`.
    pub servers: Vec<String>,
    /// The store's number.
    pub store: u64,
    /// The node's name. No other node of the store has it.
    pub node: String,
    /// A node that was silent for this long has lost its fence. The server may make it longer.
    pub lease: Duration,
    /// For how long a call is tried.
    pub patience: Duration,
    /// How the members know the node, and the node them.
    pub access: EtcdAccess,
}

/// How a node and the members of etcd know each other. By default, everybody who reaches the members may use them.
#[derive(Clone, Default)]
pub struct EtcdAccess {
    /// Certificates of authorities in PEM, by which the members' own are checked. Without any, those of the system are used.
    pub authorities: Option<Vec<u8>>,
    /// The node's certificate and its key in PEM, if the members ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name and the password of a user of etcd.
    pub user: Option<(String, String)>,
}

impl std::fmt::Debug for EtcdAccess {
    /// Shows no secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("EtcdAccess").field("user", &user).finish_non_exhaustive()
    }
}

impl EtcdOptions {
    /// Makes options with the usual times: a lease of 10 s, and calls that are tried for 15 s.
    pub fn new(servers: Vec<String>, store: u64, node: &str) -> EtcdOptions {
        let (lease, patience) = (Duration::from_secs(10), Duration::from_secs(15));
        EtcdOptions { servers, store, node: node.into(), lease, patience, access: EtcdAccess::default() }
    }
}

/// A store's log in etcd, as one node uses it.
///
/// Its calls block, and must not come from asynchronous code. Its connections have a thread of their own.
pub struct Etcd {
    core: Arc<Core>,
    lease: Duration,
    /// Locked for a moment only.
    fence: Mutex<Option<Fence>>,
    /// Locked by the reading thread while it waits. No other call takes it.
    follower: Mutex<Follower>,
    /// None once this is dropped.
    runtime: Option<Runtime>,
}

impl Etcd {
    /// Makes the log of a store, unless it is there.
    ///
    /// # Errors
    /// [`OrderError::NoAnswer`]: it may be there.
    pub fn make(options: &EtcdOptions) -> Result<(), OrderError> {
        let runtime = start(options)?;
        let members = Members::new(options.servers.clone(), options.patience, options.access.clone());
        runtime.block_on(Core::make(&members, &Keys::new(options.store)))
    }

    /// Makes the log again in the place of one that is lost: it begins with `snapshot`, which has what is left of that one. With `force`,
    /// also in the place of one that was made again from a node with fewer records, and lost with what came into it since.
    ///
    /// # Errors
    /// [`OrderError::Refused`] if nodes still follow the old log, or it lacks nothing that the snapshot has. After
    /// [`OrderError::NoAnswer`], call it again.
    pub fn make_again(
        options: &EtcdOptions,
        identity: LogIdentity,
        snapshot: &OfferedSnapshot,
        force: bool,
    ) -> Result<(), OrderError> {
        let runtime = start(options)?;
        let members = Members::new(options.servers.clone(), options.patience, options.access.clone());
        let keys = Keys::new(options.store);
        runtime.block_on(recover::make_again(&members, &keys, &options.node, identity, snapshot, force))
    }

    /// Opens the log of a store.
    ///
    /// # Errors
    /// [`OrderError::NoLog`] if it was never made; [`OrderError::Server`] if a member has a version that must not be used.
    pub fn open(options: EtcdOptions) -> Result<Etcd, OrderError> {
        let runtime = start(&options)?;
        let EtcdOptions { servers, store, node, lease, patience, access } = options;
        let members = Arc::new(Members::new(servers, patience, access));
        let core = runtime.block_on(Core::open(members, Keys::new(store), store, node))?;
        Ok(Etcd {
            core: Arc::new(core),
            lease,
            fence: Mutex::new(None),
            follower: Mutex::default(),
            runtime: Some(runtime),
        })
    }

    /// Raises the log's format to the newest one that this program and all nodes with a fence know. A program that does not know it
    /// can then neither append nor follow.
    ///
    /// # Errors
    /// [`OrderError::Newer`] if the format is newer than this program.
    pub fn raise_format(&self) -> Result<LogFormat, OrderError> {
        self.block_on(self.core.raise_format())
    }

    fn block_on<T>(&self, call: impl Future<Output = Result<T, OrderError>>) -> Result<T, OrderError> {
        let closed = || OrderError::NoAnswer { reason: "the log is closed".into() };
        self.runtime.as_ref().ok_or_else(closed)?.block_on(call)
    }
}

impl Order for Etcd {
    fn join(&self, last: Option<u64>) -> Result<u64, OrderError> {
        let fence = self.block_on(self.core.join(last, self.lease))?;
        let incarnation = fence.incarnation;
        *self.fence.lock() = Some(fence);
        Ok(incarnation)
    }

    fn append(&self, append: &Append) -> Result<Answer, OrderError> {
        self.block_on(self.core.append(append))
    }

    fn head(&self) -> Result<u64, OrderError> {
        self.block_on(async { Ok(self.core.state().await?.head) })
    }

    fn read(&self, after: u64, most: usize) -> Result<Records, OrderError> {
        self.block_on(self.follower.lock().read(&self.core, after, most))
    }

    fn wait(&self, after: u64, timeout: Duration) -> Result<(), OrderError> {
        self.block_on(self.follower.lock().wait(&self.core, after, timeout))
    }

    fn trim(&self, to: u64) -> Result<(), OrderError> {
        self.block_on(self.core.trim(to))
    }

    fn offer_snapshot(&self, snapshot: &OfferedSnapshot) -> Result<(), OrderError> {
        self.block_on(self.core.offer_snapshot(snapshot))
    }

    fn snapshots(&self) -> Result<BTreeMap<String, OfferedSnapshot>, OrderError> {
        self.block_on(self.core.snapshots())
    }

    fn fences(&self) -> Result<BTreeMap<String, u64>, OrderError> {
        self.block_on(self.core.fences())
    }

    fn keep(&self, incarnation: u64) -> Result<bool, OrderError> {
        let lease =
            self.fence.lock().as_ref().filter(|fence| fence.incarnation == incarnation).map(|fence| fence.lease);
        // Who has no fence keeps nothing.
        lease.map_or(Ok(false), |lease| self.block_on(self.core.keep(incarnation, lease)))
    }

    fn identity(&self) -> LogIdentity {
        self.core.identity
    }

    fn leave(&self, incarnation: u64) -> Result<(), OrderError> {
        let fence = self.fence.lock().take_if(|fence| fence.incarnation == incarnation);
        self.block_on(self.core.leave(incarnation, fence))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waits for nothing: the connections may be to members that hang.
            runtime.shutdown_background();
        }
    }
}

/// Starts what the client's connections need, for options that make sense.
fn start(options: &EtcdOptions) -> Result<Runtime, OrderError> {
    let refused = |reason: &str| Err(OrderError::Refused { reason: reason.into() });
    if options.servers.is_empty() {
        return refused("no address of a server is given");
    }
    if options.node.is_empty() || options.node.contains('/') {
        return refused("a node's name must not be empty, and has no slash");
    }
    let failed = |e: io::Error| OrderError::NoAnswer { reason: format!("cannot start a thread: {e}") };
    Builder::new_multi_thread().worker_threads(1).thread_name("terrace-etcd").enable_all().build().map_err(failed)
}
