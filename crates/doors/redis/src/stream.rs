//! Connections over TCP or over sockets of the file system, which do not wait.

use std::io::{self, Read, Write};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use terrace_system::{Address, listen_privately};

use crate::error::RedisServeError;

/// The backlog of connections that are not accepted yet.
const ACCEPT_BACKLOG: i32 = 1024;

/// A listening socket.
pub enum RedisListener {
    Tcp(mio::net::TcpListener),
    Unix(mio::net::UnixListener),
}

/// A connection.
pub enum RedisStream {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
}

impl RedisListener {
    /// Listens on the address.
    pub fn on(address: &Address) -> Result<RedisListener, RedisServeError> {
        let refused = |source| RedisServeError::Refused { address: address.to_string(), source };
        match address {
            // Without authentication that others cannot hear, everybody who reaches the address has everything.
            Address::Tcp(address) if !address.ip().is_loopback() => Err(RedisServeError::Open(*address)),
            Address::Tcp(address) => mio::net::TcpListener::bind(*address).map(RedisListener::Tcp).map_err(refused),
            Address::Unix(path) => {
                let listener = listen_privately(path, ACCEPT_BACKLOG).map_err(|error| match error.kind() {
                    io::ErrorKind::AlreadyExists => RedisServeError::InTheWay(path.clone()),
                    _ => refused(error),
                })?;
                listener.set_nonblocking(true).map_err(refused)?;
                Ok(RedisListener::Unix(mio::net::UnixListener::from_std(listener)))
            }
        }
    }

    /// Takes a connection; fails with `WouldBlock` if none is waiting.
    pub fn accept(&self) -> io::Result<RedisStream> {
        Ok(match self {
            RedisListener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are written together, so delaying them (Nagle's algorithm) gains nothing.
                stream.set_nodelay(true)?;
                RedisStream::Tcp(stream)
            }
            RedisListener::Unix(listener) => RedisStream::Unix(listener.accept()?.0),
        })
    }

    /// The actual address; a port of 0 is replaced by the assigned one.
    pub fn address(&self, asked: &Address) -> Address {
        match self {
            RedisListener::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), Address::Tcp),
            RedisListener::Unix(_) => asked.clone(),
        }
    }

    /// Reports connections that are waiting.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            RedisListener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            RedisListener::Unix(listener) => registry.register(listener, token, Interest::READABLE),
        }
    }
}

impl RedisStream {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            RedisStream::Tcp(stream) => stream,
            RedisStream::Unix(stream) => stream,
        }
    }

    /// Reports when it can be read or written.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.source().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Reports nothing more.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}

impl Read for RedisStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            RedisStream::Tcp(stream) => stream.read(out),
            RedisStream::Unix(stream) => stream.read(out),
        }
    }
}

impl Write for RedisStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            RedisStream::Tcp(stream) => stream.write(bytes),
            RedisStream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
