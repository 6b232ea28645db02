//! [`Server`]: accepts connections, and closes them.

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
use crate::nine;
use crate::stream::{Listener, Stream};
use crate::{Address, ServeError};

/// How long a client may take to receive its last reply when the server ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed accept, for example without free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The limits on the number and idle time of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of connections; each may hold a few MiB and its open files. To admit one more, the server closes the connection
    /// that has been idle longest: first among those without a version, then among those without open files, then among all.
    pub connections: usize,
    /// A connection that has been idle for less than this is not closed for another, unless it has no version. A connection with open
    /// files is spared for twelve times as long.
    pub spared: Duration,
    /// A connection that sends no request, or does not receive its reply, for this long is closed; `None` disables the limit.
    pub idle: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 256, spared: Duration::from_secs(5), idle: Some(Duration::from_secs(24 * 60 * 60)) }
    }
}

/// A running server. Dropping it ends it.
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
    /// Signals that a connection has ended.
    ended: Condvar,
}

struct Connection {
    stream: Stream,
    activity: Arc<Activity>,
    /// Whether it was closed for another connection, and is closing its files.
    is_closing: bool,
}

impl Server {
    /// Serves files and views by 9P2000. Every client has full access; `trusted` admits other machines.
    ///
    /// # Errors
    /// If the system refuses the address, or other machines can reach it without `trusted`.
    pub fn begin(files: &Files, address: &Address, trusted: bool, limits: Limits) -> Result<Server, ServeError> {
        let listener = Listener::on(address, trusted)?;
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

    /// The address on which the server listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops accepting connections, and closes the existing ones after the requests in progress. Then closes their files.
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
            // Another process may have removed the socket.
            let _ = fs::remove_file(path);
        }
        let begun = Instant::now();
        let mut connections = shared.connections.lock();
        end_all(&connections, Shutdown::Read);
        while !connections.is_empty() {
            let left = SHUTDOWN_TIMEOUT.saturating_sub(begun.elapsed());
            let late;
            (connections, late) = shared.ended.wait_timeout(connections, left);
            if late.timed_out() {
                end_all(&connections, Shutdown::Both);
                (connections, _) = shared.ended.wait_timeout(connections, SHUTDOWN_TIMEOUT);
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
        // The connection may have ended by itself.
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
            thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}

/// Answers a connection's requests in a thread of its own.
fn begin(shared: &Arc<Shared>, number: u64, stream: Stream) -> std::io::Result<()> {
    let activity = Arc::new(Activity::new());
    stream.set_patience(shared.limits.idle)?;
    {
        let mut connections = shared.connections.lock();
        make_room(&mut connections, shared.limits)?;
        let connection = Connection { stream: stream.again()?, activity: activity.clone(), is_closing: false };
        connections.insert(number, connection);
    }
    let guard = ConnectionGuard { shared: shared.clone(), number };
    let run = move || {
        if let Err(error) = nine::serve(&guard.shared.tree, &stream, &activity) {
            tracing::info!(%error, "a connection broke, or was idle for too long");
        }
        drop(stream);
        drop(guard);
    };
    thread::Builder::new().name("terrace-nine".into()).spawn(run).map(drop)
}

/// Makes room for one more connection.
fn make_room(connections: &mut HashMap<u64, Connection>, limits: Limits) -> std::io::Result<()> {
    let closing = connections.values().filter(|connection| connection.is_closing).count();
    if connections.len() - closing < limits.connections {
        return Ok(());
    }
    // A closing connection may take long to write its files, so limit the number of closing ones too.
    let idle = connections.values_mut().filter(|connection| closing < limits.connections && !connection.is_closing);
    let ended =
        idle.filter_map(|connection| Some((closing_rank(connection.activity.idle()?, limits.spared)?, connection)));
    match ended.max_by_key(|(rank, _)| *rank) {
        Some((_, connection)) => {
            connection.is_closing = true;
            tracing::info!("a connection that was idle is ended, to let another in");
            // The connection may have ended by itself. Its thread closes its files.
            let _ = connection.stream.shutdown(Shutdown::Both);
            Ok(())
        }
        None => Err(std::io::Error::other(format!("there are {} already, and none is idle", limits.connections))),
    }
}

/// Ranks an idle connection; the greatest rank is closed first. `None` spares the connection.
fn closing_rank((holding, waits): (Holding, Duration), spared: Duration) -> Option<(Reverse<Holding>, Duration)> {
    let spared = match holding {
        Holding::Nothing => Duration::ZERO,
        Holding::Names => spared,
        Holding::Files => spared * 12,
    };
    (waits >= spared).then_some((Reverse(holding), waits))
}

/// Removes a connection from the list when it is dropped, including during a panic.
struct ConnectionGuard {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.shared.connections.lock().remove(&self.number);
        self.shared.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_lose_least_are_closed_first_and_none_at_once() {
        let rank = |holding, seconds| closing_rank((holding, Duration::from_secs(seconds)), Duration::from_secs(5));
        use Holding::{Files, Names, Nothing};
        let order =
            [rank(Files, 60), rank(Files, 900), rank(Names, 5), rank(Names, 800), rank(Nothing, 0), rank(Nothing, 1)];
        assert!(order.is_sorted() && order.iter().all(Option::is_some), "{order:?}");
        assert_eq!([rank(Names, 4), rank(Files, 59)], [None; 2]);
    }
}
