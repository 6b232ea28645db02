//! Connections over TCP or over sockets of the file system, which do not wait.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::address::{RedisAddress, RedisServeError};

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
    pub fn on(address: &RedisAddress) -> Result<RedisListener, RedisServeError> {
        let refused = |source| RedisServeError::Refused { address: address.to_string(), source };
        match address {
            // Without authentication that others cannot hear, everybody who reaches the address has everything.
            RedisAddress::Tcp(address) if !address.ip().is_loopback() => Err(RedisServeError::Open(*address)),
            RedisAddress::Tcp(address) => {
                mio::net::TcpListener::bind(*address).map(RedisListener::Tcp).map_err(refused)
            }
            RedisAddress::Unix(path) => {
                clear(path)?;
                own(path).map(RedisListener::Unix).map_err(refused)
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
    pub fn address(&self, asked: &RedisAddress) -> RedisAddress {
        match self {
            RedisListener::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), RedisAddress::Tcp),
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

/// Removes a socket without a listener.
fn clear(path: &Path) -> Result<(), RedisServeError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => return Err(RedisServeError::InTheWay(path.to_owned())),
        Ok(_) if UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) => {
            // If the removal fails, creating the new socket fails too and reports the reason.
            let _ = fs::remove_file(path);
        }
        // The socket is in use, or does not exist.
        _ => {}
    }
    Ok(())
}

/// Creates a socket for the owner alone: permissions are set before it listens, so no other user can connect.
fn own(path: &Path) -> io::Result<mio::net::UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listen(&socket, ACCEPT_BACKLOG)?;
    Ok(mio::net::UnixListener::from_std(socket.into()))
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
