//! [`Server`]: takes connections, and ends them.

use std::collections::HashMap;
use std::fs;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};
use terrace::Files;
use terrace_tree::Tree;

use crate::address::{Address, ServeError};
use crate::nine;
use crate::stream::{Listener, Stream};

/// More connections at once are turned away: each may hold a few MiB, and what it has open.
const MOST: usize = 256;
/// For so long a client may take its last answer, when the server ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// A pause where no connection can be taken, as when there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A served store. It ends when this is dropped.
pub struct Server {
    address: Address,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    tree: Arc<Tree>,
    listener: Listener,
    ending: AtomicBool,
    connections: Mutex<HashMap<u64, Stream>>,
    /// One connection less.
    ended: Condvar,
}

impl Server {
    /// Serves files and views by 9P2000. Whoever connects may do everything: other machines are let in only if `trusted`.
    ///
    /// # Errors
    /// Where the address cannot be had, or can be reached by others than are trusted.
    pub fn begin(files: &Files, address: &Address, trusted: bool) -> Result<Server, ServeError> {
        let listener = address.listen(trusted)?;
        let address = listener.address(address);
        let shared = Arc::new(Shared {
            tree: Arc::new(Tree::new(files)),
            listener,
            ending: AtomicBool::new(false),
            connections: Mutex::default(),
            ended: Condvar::new(),
        });
        let accept = {
            let shared = shared.clone();
            move || accept(&shared)
        };
        let accepting = thread::Builder::new().name("terrace-serve".into()).spawn(accept);
        let accepting = accepting.map_err(|source| ServeError::Refused { address: address.to_string(), source })?;
        Ok(Server { address, shared, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Takes no more connections, and ends those that there are when the requests at hand are answered. What they had open is
    /// closed then.
    pub fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        let shared = &self.shared;
        shared.ending.store(true, Ordering::Release);
        if let Err(error) = shared.listener.end() {
            tracing::warn!(%error, "a server cannot stop listening");
            return;
        }
        let _ = accepting.join();
        if let Address::Unix(path) = &self.address {
            // It may have been removed by somebody else.
            let _ = fs::remove_file(path);
        }
        let begun = Instant::now();
        let mut connections = shared.connections.lock();
        end_all(&connections, Shutdown::Read);
        while !connections.is_empty() {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let late;
            (connections, late) = shared.ended.wait_timeout(connections, left);
            if late.timed_out() {
                end_all(&connections, Shutdown::Both);
                (connections, _) = shared.ended.wait_timeout(connections, PATIENCE);
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn end_all(connections: &HashMap<u64, Stream>, how: Shutdown) {
    for stream in connections.values() {
        // It may have ended by itself.
        let _ = stream.shutdown(how);
    }
}

fn accept(shared: &Arc<Shared>) {
    for number in 0.. {
        let taken = shared.listener.accept();
        if shared.ending.load(Ordering::Acquire) {
            return;
        }
        let begun = taken.and_then(|stream| begin(shared, number, stream));
        if let Err(error) = begun {
            tracing::warn!(%error, "a connection cannot be taken");
            thread::sleep(PAUSE);
        }
    }
}

/// Answers a connection's requests, by a thread of its own.
fn begin(shared: &Arc<Shared>, number: u64, stream: Stream) -> std::io::Result<()> {
    {
        let mut connections = shared.connections.lock();
        if connections.len() >= MOST {
            return Err(std::io::Error::other(format!("there are {MOST} already")));
        }
        connections.insert(number, stream.again()?);
    }
    let leave = Leave { shared: shared.clone(), number };
    let run = move || {
        if let Err(error) = nine::serve(&leave.shared.tree, &stream) {
            tracing::info!(%error, "a connection broke");
        }
        drop(stream);
        drop(leave);
    };
    thread::Builder::new().name("terrace-nine".into()).spawn(run).map(drop)
}

/// A connection that is taken off the list at its end, however that comes.
struct Leave {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.shared.connections.lock().remove(&self.number);
        self.shared.ended.notify_all();
    }
}
