//! Connections over TCP or over sockets of the file system.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use terrace_system::listen_privately;

use crate::{Address, ServeError};

/// The backlog of connections that are not accepted yet.
const ACCEPT_BACKLOG: i32 = 128;

/// A listening socket.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Listens on the address. `trusted` allows addresses that other machines can reach.
    pub fn on(address: &Address, trusted: bool) -> Result<Listener, ServeError> {
        let refused = |source| ServeError::Refused { address: address.to_string(), source };
        match address {
            Address::Tcp(address) if !address.ip().is_loopback() && !trusted => Err(ServeError::Open(*address)),
            Address::Tcp(address) => TcpListener::bind(address).map(Listener::Tcp).map_err(refused),
            Address::Unix(path) => {
                listen_privately(path, ACCEPT_BACKLOG).map(Listener::Unix).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => ServeError::InTheWay(path.clone()),
                    _ => refused(error),
                })
            }
        }
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are whole messages, so delaying them (Nagle's algorithm) gains nothing.
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
        })
    }

    /// The actual address; a port of 0 is replaced by the assigned one.
    pub fn address(&self, asked: &Address) -> Address {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), Address::Tcp),
            Listener::Unix(_) => asked.clone(),
        }
    }

    /// Interrupts a wait in [`accept`](Self::accept) with an error.
    pub fn end(&self) -> io::Result<()> {
        let descriptor: BorrowedFd = match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        };
        Ok(rustix::net::shutdown(descriptor, rustix::net::Shutdown::Both)?)
    }
}

impl Stream {
    /// Duplicates the handle of the connection.
    pub fn again(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    /// Sets the timeout after which a read or a write fails.
    pub fn set_patience(&self, most: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(most).and_then(|()| stream.set_write_timeout(most)),
            Stream::Unix(stream) => stream.set_read_timeout(most).and_then(|()| stream.set_write_timeout(most)),
        }
    }

    /// Shuts down one direction, or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(out),
            Stream::Unix(stream) => (&mut &*stream).read(out),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
