//! [`Node`]: starts and ends the parts of the daemon.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix_futex_sync::RwLock;
use terrace::{Locked, SharedNode, Store};
use terrace_kit::{Reach, TaskServer};

use crate::answers::Answers;
use crate::error::NodeError;
use crate::held::Held;
use crate::http::serve_requests;
use crate::report::Reporter;
use crate::tending::Tending;
use crate::upkeep::{Stop, Upkeep};

/// The reason to refuse other machines.
const OPEN_ADVICE: &str = "and everybody who reaches it reads the store's state: there is no authentication; listen on 127.0.0.1 and \
                           forward the port by ssh, or say --trust-network";

/// The settings of a node.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on; port 0 takes a free one. None listens nowhere.
    pub listen: Option<SocketAddr>,
    /// Accept addresses that other machines can reach.
    pub trust_network: bool,
    /// The time in which each replica is verified once; none never scrubs.
    pub scrub_interval: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        let week = Duration::from_secs(7 * 86_400);
        Options { listen: None, trust_network: false, scrub_interval: Some(week) }
    }
}

/// A running daemon. Dropping it without [`end`](Self::end) leaves its other threads running until the process ends.
pub struct Node {
    held: Arc<Held>,
    stop: Arc<Stop>,
    server: Option<TaskServer>,
    upkeep: JoinHandle<Result<(), terrace::Error>>,
    tending: Option<Tending>,
    /// Held as long as the node runs.
    _lock: Locked,
}

impl Node {
    /// Runs the daemon of an open store, which is `shared` with other nodes or not. `failed` is called when it cannot go on, because the
    /// store cannot be opened any more, or the shared log is not followed; [`end`](Self::end) then returns the reason.
    ///
    /// # Errors
    /// If another node runs on this store, or the system refuses the address.
    pub fn begin(
        store: Store,
        shared: Option<SharedNode>,
        options: &Options,
        failed: impl Fn() + Clone + Send + 'static,
    ) -> Result<Node, NodeError> {
        let lock = store.lock_node()?.ok_or(NodeError::Running)?;
        store.work_in_background();
        store.stay_in_background();
        let held = Arc::new(RwLock::new(Some(store)));
        let answers = Answers::new(Reporter::new(held.clone()), options.trust_network);
        let reach = if options.trust_network { Reach::Anywhere } else { Reach::ThisMachine(OPEN_ADVICE) };
        let begin =
            |address| serve_requests(address, reach, move |method, uri, headers| answers.answer(method, uri, headers));
        let server = options.listen.map(begin).transpose()?;
        let stop = Arc::new(Stop::default());
        let tend = |shared| Tending::begin(shared, held.clone(), stop.clone(), failed.clone());
        let tending = shared.map(tend).transpose().map_err(NodeError::Start)?;
        let upkeep = Upkeep::new(held.clone(), stop.clone(), options.scrub_interval);
        let run = move || {
            let done = upkeep.run();
            if done.is_err() {
                failed();
            }
            done
        };
        let upkeep = thread::Builder::new().name("terrace-upkeep".into()).spawn(run).map_err(NodeError::Start)?;
        Ok(Node { held, stop, server, upkeep, tending, _lock: lock })
    }

    /// The store, until the node ends.
    pub(crate) fn store(&self) -> Arc<Held> {
        self.held.clone()
    }

    /// The address on which the node listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(TaskServer::address)
    }

    /// Stops the node: answers the requests that have arrived, ends the work in progress after the current extent, and makes
    /// durable what was committed. Pending replicas stay pending, and the next process makes them.
    ///
    /// # Errors
    /// The reason for which the node could not go on, or why the store could not be made durable.
    pub fn end(self) -> Result<(), NodeError> {
        // This answers the requests that have arrived.
        drop(self.server);
        self.stop.set();
        let done = self.upkeep.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (shared, tended) = self.tending.map_or((None, Ok(())), Tending::end);
        // Nothing else uses the store any more, so dropping it closes it.
        let store = self.held.write().take();
        let synced = store.map_or(Ok(()), Store::close_at_once);
        let ended = shared.map_or(Ok(()), SharedNode::end);
        done.and(tended).and(synced).and(ended).map_err(NodeError::Store)
    }
}
