//! [`ThreadServer`]: serves each connection in a thread of its own.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;
use rustix_futex_sync::{Condvar, Mutex, MutexGuard};
use terrace_system::Address;

use crate::connection::Connection;
use crate::listener::{ACCEPT_RETRY_DELAY, ListenError, Listener, Reach};

/// How long a client may take to receive its last reply when the server ends.
const MAX_REPLY_TIME: Duration = Duration::from_secs(5);

/// How a [`ThreadServer`] serves.
#[derive(Clone, Copy, Debug)]
pub struct ThreadOptions {
    /// The name of the threads.
    pub name: &'static str,
    /// The largest number of connections. To admit one more, the server closes the one that loses least by it, and among those the one
    /// that has been idle longest ([`Connection::end_request`]). If none may be closed, it turns the new one away.
    pub max_connections: usize,
    /// A connection that sends no request, or does not receive its reply, for this long is closed; `None` disables the limit.
    pub idle: Option<Duration>,
    /// How long requests in progress may take when the server ends.
    pub drain_time: Duration,
}

/// A running server that serves each connection in a thread of its own. Dropping it ends it.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
/// use std::time::Duration;
///
/// use terrace_kit::{Address, Connection, Reach, ThreadOptions, ThreadServer};
///
/// // A protocol in which each request is a byte, and so is its reply.
/// let serve = |mut connection: &Connection| -> std::io::Result<()> {
///     let mut byte = [0];
///     loop {
///         connection.read_exact(&mut byte)?;
///         connection.begin_request();
///         connection.write_all(&byte)?;
///         connection.end_request(Duration::ZERO);
///     }
/// };
/// let options = ThreadOptions { name: "echo", max_connections: 16, idle: None, drain_time: Duration::from_secs(1) };
/// let address = Address::Tcp("127.0.0.1:0".parse()?);
/// let mut server = ThreadServer::begin(&address, Reach::ThisMachine("listen on 127.0.0.1"), options, serve)?;
///
/// let mut client = TcpStream::connect(server.address().to_string())?;
/// client.write_all(b"a")?;
/// let mut reply = [0];
/// client.read_exact(&mut reply)?;
/// assert_eq!(&reply, b"a");
/// server.end();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ThreadServer {
    address: Address,
    shared: Arc<Shared>,
    /// The socket and the thread that accepts, until the server ends.
    accepting: Option<(Arc<Listener>, JoinHandle<()>)>,
}

/// Answers the requests of a connection.
type Serve = dyn Fn(&Connection) -> io::Result<()> + Send + Sync;

struct Shared {
    options: ThreadOptions,
    serve: Box<Serve>,
    ending: AtomicBool,
    /// Held for an insertion, a removal or a walk, which shuts sockets down: that never waits.
    connections: Mutex<Connections>,
    /// Signals that a connection has ended.
    ended: Condvar,
}

/// The connections by their numbers.
type Connections = HashMap<u64, Listed>;

struct Listed {
    connection: Arc<Connection>,
    /// Whether it was closed for another connection, and its thread has not ended yet.
    is_closing: bool,
}

impl ThreadServer {
    /// Serves the connections to an address. `serve` answers the requests of one, until the client leaves or a read fails.
    ///
    /// # Errors
    /// If the system refuses the address or a thread, or machines could connect that may not.
    pub fn begin(
        address: &Address,
        reach: Reach,
        options: ThreadOptions,
        serve: impl Fn(&Connection) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<ThreadServer, ListenError> {
        let listener = Arc::new(Listener::bind(address, reach)?);
        let address = listener.address();
        let shared = Arc::new(Shared {
            options,
            serve: Box::new(serve),
            ending: AtomicBool::new(false),
            connections: Mutex::default(),
            ended: Condvar::new(),
        });
        let accept = {
            let (shared, listener) = (shared.clone(), listener.clone());
            move || accept(&shared, &listener)
        };
        let accepting = thread::Builder::new().name(options.name.into()).spawn(accept);
        let accepting = accepting.map_err(|source| ListenError::Refused { address: address.clone(), source })?;
        Ok(ThreadServer { address, shared, accepting: Some((listener, accepting)) })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops accepting connections, and waits until the requests in progress are answered and all connections have ended. A request that
    /// takes longer than [`ThreadOptions::drain_time`] is left alone: its thread goes on, and its client receives no reply.
    pub fn end(&mut self) {
        let Some((listener, accepting)) = self.accepting.take() else { return };
        let shared = &self.shared;
        // Before the interrupt: the call of `accept` that it ends reads this, and must not wait for one more connection.
        shared.ending.store(true, Ordering::Release);
        if let Err(error) = listener.interrupt() {
            tracing::warn!(%error, "a server cannot stop listening");
            return;
        }
        // A panic there has been printed.
        let _ = accepting.join();
        // This removes the socket of the file system.
        drop(listener);
        let connections = shared.connections.lock();
        close_all(&connections, Shutdown::Read);
        let connections = shared.wait_for_all(connections, shared.options.drain_time.min(MAX_REPLY_TIME));
        close_all(&connections, Shutdown::Both);
        let hanging = shared.wait_for_all(connections, shared.options.drain_time).len();
        if hanging > 0 {
            tracing::warn!(hanging, "the server ends without the replies to requests that take too long");
        }
    }
}

impl Shared {
    /// Waits until all connections have ended, but no longer than `time`.
    fn wait_for_all<'a>(
        &'a self,
        mut connections: MutexGuard<'a, Connections>,
        time: Duration,
    ) -> MutexGuard<'a, Connections> {
        let begun = Instant::now();
        while !connections.is_empty() {
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            (connections, _) = self.ended.wait_timeout(connections, left);
        }
        connections
    }
}

impl Drop for ThreadServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn close_all(connections: &Connections, how: Shutdown) {
    connections.values().for_each(|listed| listed.connection.close(how));
}

fn accept(shared: &Arc<Shared>, listener: &Listener) {
    for number in 0.. {
        let accepted = listener.accept();
        if shared.ending.load(Ordering::Acquire) {
            return;
        }
        let idle = shared.options.idle;
        let begun = accepted.and_then(|socket| begin(shared, number, Connection::new(socket, idle)?));
        if let Err(error) = begun {
            tracing::warn!(%error, "a connection cannot be taken");
            thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}

/// Serves a connection in a thread of its own.
fn begin(shared: &Arc<Shared>, number: u64, connection: Connection) -> io::Result<()> {
    let connection = Arc::new(connection);
    {
        let mut connections = shared.connections.lock();
        make_room(&mut connections, shared.options.max_connections)?;
        connections.insert(number, Listed { connection: connection.clone(), is_closing: false });
    }
    let guard = ConnectionGuard { shared: shared.clone(), number };
    let run = move || {
        if let Err(error) = (guard.shared.serve)(&connection) {
            tracing::info!(%error, "a connection broke, or was idle for too long");
        }
        drop(connection);
        // Last: the server ends when all connections have.
        drop(guard);
    };
    // If no thread can be made, the closure is dropped, and with it the connection.
    thread::Builder::new().name(shared.options.name.into()).spawn(run).map(drop)
}

/// Makes room for one more connection.
fn make_room(connections: &mut Connections, max_connections: usize) -> io::Result<()> {
    let closing = connections.values().filter(|listed| listed.is_closing).count();
    if connections.len() - closing < max_connections {
        return Ok(());
    }
    // A closing connection may take long to write its files, so limit the number of closing ones too.
    let open = connections.values_mut().filter(|listed| closing < max_connections && !listed.is_closing);
    let idle = open.filter_map(|listed| Some((closing_rank(listed.connection.idle()?)?, listed)));
    match idle.max_by_key(|(rank, _)| *rank) {
        Some((_, listed)) => {
            listed.is_closing = true;
            tracing::info!("a connection that was idle is ended, to let another in");
            listed.connection.close(Shutdown::Both);
            Ok(())
        }
        None => Err(io::Error::other(format!("there are {max_connections} already, and none is idle"))),
    }
}

/// Ranks an idle connection; the greatest rank is closed first. `None` spares the connection.
fn closing_rank((spared, waits): (Duration, Duration)) -> Option<(Reverse<Duration>, Duration)> {
    (waits >= spared).then_some((Reverse(spared), waits))
}

/// Removes a connection from the list when it is dropped, including during a panic.
struct ConnectionGuard {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        // The last holder closes the socket, so a client that sees the end finds room again.
        self.shared.connections.lock().remove(&self.number);
        self.shared.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_lose_least_are_closed_first_and_none_at_once() {
        let rank = |spared, waits| closing_rank((Duration::from_secs(spared), Duration::from_secs(waits)));
        let order = [rank(60, 60), rank(60, 900), rank(5, 5), rank(5, 800), rank(0, 0), rank(0, 1)];
        assert!(order.is_sorted() && order.iter().all(Option::is_some), "{order:?}");
        assert_eq!([rank(5, 4), rank(60, 59)], [None; 2]);
    }
}
