//! [`Connection`]: a client's, with what decides whether it is closed for another one.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendFlags, Shutdown, send, shutdown};

/// The value of `waits_since` while a request is being read or answered.
const BUSY_SINCE: u64 = u64::MAX;

/// A connection of a client. One thread uses it, others ask whether it is idle. Each atomic is meaningful by itself, so relaxed
/// order suffices.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    begun: Instant,
    /// The start of the wait for a request, in milliseconds since the connection began, or [`BUSY_SINCE`].
    waits_since: AtomicU64,
    /// The time for which it is spared while it waits, in milliseconds.
    spared: AtomicU64,
}

impl Connection {
    /// A connection whose reads and writes fail after this time.
    pub(crate) fn new(socket: OwnedFd, patience: Option<Duration>) -> io::Result<Connection> {
        set_socket_timeout(&socket, Timeout::Recv, patience)?;
        set_socket_timeout(&socket, Timeout::Send, patience)?;
        let (waits_since, spared) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Connection { socket, begun: Instant::now(), waits_since, spared })
    }

    /// Marks the start of a request: until it ends, the connection is not closed for another one.
    pub fn begin_request(&self) {
        self.waits_since.store(BUSY_SINCE, Ordering::Relaxed);
    }

    /// Marks the end of a request. When there are too many connections, one that waits for its next request is closed, but none
    /// before it has waited for `spared`. Those that are spared for the shortest time are closed first.
    pub fn end_request(&self, spared: Duration) {
        self.spared.store(spared.as_millis() as u64, Ordering::Relaxed);
        self.waits_since.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// The time for which it is spared, and the time for which it has waited; `None` while it has a request.
    pub(crate) fn idle(&self) -> Option<(Duration, Duration)> {
        let since = self.waits_since.load(Ordering::Relaxed);
        let spared = Duration::from_millis(self.spared.load(Ordering::Relaxed));
        (since != BUSY_SINCE).then(|| (spared, self.begun.elapsed().saturating_sub(Duration::from_millis(since))))
    }

    /// Ends the reads, or all.
    pub(crate) fn close(&self, how: Shutdown) {
        // The client may have left by itself.
        let _ = shutdown(&self.socket, how);
    }
}

impl Read for &Connection {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.socket, out)?)
    }
}

impl Write for &Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Without the flag, a client that has left would end a process that does not ignore SIGPIPE.
        Ok(send(&self.socket, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
