//! The thread that tends a node of a shared store.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use terrace::{Error, SharedNode, fail};

use crate::held::Held;
use crate::upkeep::Stop;

/// The time between two looks at what the log should know of this node.
const TEND_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two snapshots for other nodes.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(600);

/// A node of a shared store, and the thread that tends it.
pub struct Tending {
    node: Arc<SharedNode>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Tending {
    /// Begins. `failed` is called if the node follows the log no more.
    pub fn begin(
        node: SharedNode,
        held: Arc<Held>,
        stop: Arc<Stop>,
        failed: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Tending> {
        let node = Arc::new(node);
        let own = node.clone();
        let run = move || {
            let done = tend(&own, &held, &stop);
            if done.is_err() {
                failed();
            }
            done
        };
        let thread = thread::Builder::new().name("terrace-tend".into()).spawn(run)?;
        Ok(Tending { node, thread })
    }

    /// Waits for the end of the thread, which has been asked to stop. Returns the node.
    ///
    /// # Errors
    /// The reason for which the node follows the log no more.
    pub fn end(self) -> (Option<SharedNode>, Result<(), Error>) {
        let done = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (Arc::into_inner(self.node), done)
    }
}

fn tend(node: &SharedNode, held: &Held, stop: &Stop) -> Result<(), Error> {
    // A test leaves frames unsynced.
    let rest = Duration::from_millis(fail::limit("TERRACE_TEND_MILLISECONDS", TEND_INTERVAL.as_millis() as u64));
    let mut offered = Instant::now();
    loop {
        if let Some(store) = &*held.read()
            && let Err(error) = node.tend(store)
        {
            tracing::warn!(%error, "the shared log was not told of this node; this is tried again");
        }
        node.check()?;
        if offered.elapsed() > SNAPSHOT_INTERVAL {
            offered = Instant::now();
            if let Err(error) = node.offer_snapshot() {
                tracing::warn!(%error, "no snapshot was left for other nodes; this is tried again");
            }
        }
        if !stop.wait(rest) {
            return Ok(());
        }
    }
}
