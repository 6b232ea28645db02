//! [`Server`]: takes connections, and ends them.

use std::cmp::Reverse;
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

use crate::activity::{Activity, Holding};
use crate::address::{Address, ServeError};
use crate::nine;
use crate::stream::{Listener, Stream};

/// For so long a client may take its last answer, when the server ends.
const PATIENCE: Duration = Duration::from_secs(5);
/// A pause where no connection can be taken, as when there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// How many connections there may be, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once: each may hold a few MiB, and what it has open. For one more, the one that has waited longest for a
    /// request is ended: first of those that have said nothing, then of those without open files, then of all.
    pub connections: usize,
    /// A connection that has been waiting for less is not ended for another, unless it has said nothing at all; with open files
    /// twelve times as long.
    pub spared: Duration,
    /// A connection that has not asked for anything, or not taken its answer, for so long is ended; none: never.
    pub idle: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 256, spared: Duration::from_secs(5), idle: Some(Duration::from_secs(24 * 60 * 60)) }
    }
}

/// A served store. It ends when this is dropped.
pub struct Server {
    address: Address,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    tree: Arc<Tree>,
    listener: Listener,
    limits: Limits,
    ending: AtomicBool,
    connections: Mutex<HashMap<u64, Connection>>,
    /// One connection less.
    ended: Condvar,
}

struct Connection {
    stream: Stream,
    activity: Arc<Activity>,
    /// It was ended for another, and is closing what it had open.
    leaves: bool,
}

impl Server {
    /// Serves files and views by 9P2000. Whoever connects may do everything: other machines are let in only if `trusted`.
    ///
    /// # Errors
    /// Where the address cannot be had, or can be reached by others than are trusted.
    pub fn begin(files: &Files, address: &Address, trusted: bool, limits: Limits) -> Result<Server, ServeError> {
        let listener = address.listen(trusted)?;
        let address = listener.address(address);
        let shared = Arc::new(Shared {
            tree: Arc::new(Tree::new(files)),
            listener,
            limits,
            ending: AtomicBool::new(false),
            connections: Mutex::default(),
            ended: Condvar::new(),
        });
        let accept = {
            let shared = shared.clone();
            move || accept(&shared)
        };
        let accepting = thread::Builder::new().name("terrace-nine".into()).spawn(accept);
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

fn end_all(connections: &HashMap<u64, Connection>, how: Shutdown) {
    for connection in connections.values() {
        // It may have ended by itself.
        let _ = connection.stream.shutdown(how);
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
    let activity = Arc::new(Activity::new());
    stream.set_patience(shared.limits.idle)?;
    {
        let mut connections = shared.connections.lock();
        make_room(&mut connections, shared.limits)?;
        let connection = Connection { stream: stream.again()?, activity: activity.clone(), leaves: false };
        connections.insert(number, connection);
    }
    let leave = Leave { shared: shared.clone(), number };
    let run = move || {
        if let Err(error) = nine::serve(&leave.shared.tree, &stream, &activity) {
            tracing::info!(%error, "a connection broke, or was idle for too long");
        }
        drop(stream);
        drop(leave);
    };
    thread::Builder::new().name("terrace-nine".into()).spawn(run).map(drop)
}

/// Sees that there is room for one more connection.
fn make_room(connections: &mut HashMap<u64, Connection>, limits: Limits) -> std::io::Result<()> {
    let leaving = connections.values().filter(|connection| connection.leaves).count();
    if connections.len() - leaving < limits.connections {
        return Ok(());
    }
    // Those that leave may be long at writing what they had open: there are not to be any number of them.
    let idle = connections.values_mut().filter(|connection| leaving < limits.connections && !connection.leaves);
    let ended = idle.filter_map(|connection| Some((rank(connection.activity.idle()?, limits.spared)?, connection)));
    match ended.max_by_key(|(rank, _)| *rank) {
        Some((_, connection)) => {
            connection.leaves = true;
            tracing::info!("a connection that was idle is ended, to let another in");
            // It may have ended by itself. Its thread closes what it has open.
            let _ = connection.stream.shutdown(Shutdown::Both);
            Ok(())
        }
        None => Err(std::io::Error::other(format!("there are {} already, and none is idle", limits.connections))),
    }
}

/// Which of the idle connections is ended first: the greatest; none where it is spared.
fn rank((holding, waits): (Holding, Duration), spared: Duration) -> Option<(Reverse<Holding>, Duration)> {
    let spared = match holding {
        Holding::Nothing => Duration::ZERO,
        Holding::Names => spared,
        Holding::Files => spared * 12,
    };
    (waits >= spared).then_some((Reverse(holding), waits))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_loses_least_is_ended_first_and_nobody_at_once() {
        let rank = |holding, seconds| rank((holding, Duration::from_secs(seconds)), Duration::from_secs(5));
        use Holding::{Files, Names, Nothing};
        let order =
            [rank(Files, 60), rank(Files, 900), rank(Names, 5), rank(Names, 800), rank(Nothing, 0), rank(Nothing, 1)];
        assert!(order.is_sorted() && order.iter().all(Option::is_some), "{order:?}");
        assert_eq!([rank(Names, 4), rank(Files, 59)], [None; 2]);
    }
}
