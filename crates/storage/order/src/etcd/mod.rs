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
mod state;
mod trim;
mod version;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::{Answer, Append, OfferedSnapshot, Order, OrderError, Records};
use fence::Fence;
use follow::Follower;
use keys::Keys;
use members::Members;
use state::Core;

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
}

impl EtcdOptions {
    /// Makes options with the usual times: a lease of 10 s, and calls that are tried for 15 s.
    pub fn new(servers: Vec<String>, store: u64, node: &str) -> EtcdOptions {
        let (lease, patience) = (Duration::from_secs(10), Duration::from_secs(15));
        EtcdOptions { servers, store, node: node.into(), lease, patience }
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
        let members = Members::new(options.servers.clone(), options.patience);
        runtime.block_on(Core::make(&members, &Keys::new(options.store)))
    }

    /// Opens the log of a store.
    ///
    /// # Errors
    /// [`OrderError::NoLog`] if it was never made; [`OrderError::Server`] if a member has a version that must not be used.
    pub fn open(options: EtcdOptions) -> Result<Etcd, OrderError> {
        let runtime = start(&options)?;
        let EtcdOptions { servers, store, node, lease, patience } = options;
        let members = Arc::new(Members::new(servers, patience));
        let core = runtime.block_on(Core::open(members, Keys::new(store), store, node))?;
        Ok(Etcd {
            core: Arc::new(core),
            lease,
            fence: Mutex::new(None),
            follower: Mutex::default(),
            runtime: Some(runtime),
        })
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
