//! Connections over TCP, with TLS or without, or over sockets of the file system, which do not wait.

use std::io::{self, Read, Write};

use mio::event::Source;
use mio::{Interest, Registry, Token};
use terrace_kit::{Certificate, Listener, SocketFile};

use crate::tls_stream::TlsStream;

/// A listening socket.
pub enum RedisListener {
    /// TCP, with TLS if there is a certificate.
    Tcp(mio::net::TcpListener, Option<Certificate>),
    /// A socket of the file system, which is removed with it.
    Unix { listener: mio::net::UnixListener, _file: SocketFile },
}

/// A connection.
pub enum RedisStream {
    /// TCP.
    Tcp(mio::net::TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
    /// A socket of the file system.
    Unix(mio::net::UnixStream),
}

impl RedisListener {
    /// Takes connections from a listening socket.
    pub fn new(listener: Listener, certificate: Option<Certificate>) -> io::Result<RedisListener> {
        Ok(match listener {
            Listener::Tcp(listener, _) => {
                listener.set_nonblocking(true)?;
                RedisListener::Tcp(mio::net::TcpListener::from_std(listener), certificate)
            }
            Listener::Unix(listener, file) => {
                listener.set_nonblocking(true)?;
                RedisListener::Unix { listener: mio::net::UnixListener::from_std(listener), _file: file }
            }
        })
    }

    /// Takes a connection; fails with `WouldBlock` if none is waiting.
    pub fn accept(&self) -> io::Result<RedisStream> {
        Ok(match self {
            RedisListener::Tcp(listener, certificate) => {
                let (stream, _) = listener.accept()?;
                // Replies are written together, so delaying them (Nagle's algorithm) gains nothing.
                stream.set_nodelay(true)?;
                match certificate {
                    Some(certificate) => RedisStream::Tls(Box::new(TlsStream::new(stream, certificate)?)),
                    None => RedisStream::Tcp(stream),
                }
            }
            RedisListener::Unix { listener, .. } => RedisStream::Unix(listener.accept()?.0),
        })
    }

    /// Reports connections that are waiting.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            RedisListener::Tcp(listener, _) => registry.register(listener, token, Interest::READABLE),
            RedisListener::Unix { listener, .. } => registry.register(listener, token, Interest::READABLE),
        }
    }
}

impl RedisStream {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            RedisStream::Tcp(stream) => stream,
            RedisStream::Tls(stream) => &mut stream.socket,
            RedisStream::Unix(stream) => stream,
        }
    }

    /// Whether a read that returned less than it could may have left bytes: those that came with others in one message of TLS.
    pub fn may_hold_more(&self) -> bool {
        matches!(self, RedisStream::Tls(_))
    }

    /// Whether it keeps bytes that were written, until the socket takes them.
    pub fn holds_unsent(&self) -> bool {
        matches!(self, RedisStream::Tls(stream) if stream.holds_bytes())
    }

    /// Sends nothing more.
    pub fn say_end(&mut self) {
        if let RedisStream::Tls(stream) = self {
            stream.say_end();
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
            RedisStream::Tls(stream) => stream.read(out),
            RedisStream::Unix(stream) => stream.read(out),
        }
    }
}

impl Write for RedisStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            RedisStream::Tcp(stream) => stream.write(bytes),
            RedisStream::Tls(stream) => stream.write(bytes),
            RedisStream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            RedisStream::Tls(stream) => stream.flush(),
            RedisStream::Tcp(_) | RedisStream::Unix(_) => Ok(()),
        }
    }
}
