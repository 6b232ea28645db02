//! [`Server`]: accepts connections, and closes them.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use terrace::Store;
use terrace::key::{KeyRule, KeySpace};

/// More clients are turned away.
const MAX_CLIENTS: usize = 256;
/// A client that is silent for longer loses its connection, so that it keeps nobody else out.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// The pause after a failed accept, for example without free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A running server. Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    ending: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and accepts connections in a thread. Every client has full access, so other machines are refused.
    pub fn begin(store: &Store, address: SocketAddr) -> io::Result<Server> {
        if !address.ip().is_loopback() {
            return Err(io::Error::other(format!("{address} can be reached by other machines; use 127.0.0.1")));
        }
        // Keys are paths. In a flat key space each byte string is a name: `a` beside `a/b`, and `..` (`docs/keys.md`).
        let names =
            store.key_space(crate::KEY_SPACE).or_else(|_| store.make_key_space(crate::KEY_SPACE, KeyRule::Flat));
        let (names, store) = (names.map_err(io::Error::other)?, store.clone());
        let listener = TcpListener::bind(address)?;
        let (address, ending) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let ended = ending.clone();
        let accepting = thread::Builder::new().spawn(move || accept(&listener, &ended, &store, &names))?;
        Ok(Server { address, ending, accepting: Some(accepting) })
    }

    /// The address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, lets the requests in progress finish, and closes all connections.
    pub fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.ending.store(true, Ordering::Release);
        // This connection wakes the thread. If it fails, others are waiting, which wake it too.
        let _ = TcpStream::connect(self.address);
        let _ = accepting.join();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Accepts connections until the server ends, then waits for them.
fn accept(listener: &TcpListener, ending: &AtomicBool, store: &Store, names: &KeySpace) {
    let mut clients: Vec<(TcpStream, JoinHandle<()>)> = Vec::new();
    while let accepted = listener.accept()
        && !ending.load(Ordering::Acquire)
    {
        clients.retain(|(_, thread)| !thread.is_finished());
        let begun = accepted.and_then(|(client, _)| begin(client, clients.len(), store, names));
        match begun {
            Ok(client) => clients.push(client),
            Err(_) => thread::sleep(ACCEPT_RETRY_DELAY),
        }
    }
    for (client, _) in &clients {
        // It reads no further request. The client may have left already.
        let _ = client.shutdown(Shutdown::Read);
    }
    clients.into_iter().for_each(|(_, thread)| drop(thread.join()));
}

/// Serves one more client in a thread.
fn begin(client: TcpStream, others: usize, store: &Store, names: &KeySpace) -> io::Result<(TcpStream, JoinHandle<()>)> {
    if others >= MAX_CLIENTS {
        return Err(io::Error::other("too many clients"));
    }
    client.set_read_timeout(Some(MAX_SILENCE))?;
    client.set_write_timeout(Some(MAX_SILENCE))?;
    let (again, store, names) = (client.try_clone()?, store.clone(), names.clone());
    // An error means that the client has left, or was silent for too long.
    let thread = thread::Builder::new().spawn(move || drop(crate::serve(&store, &names, &client)))?;
    Ok((again, thread))
}
