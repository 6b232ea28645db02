//! [`RedisConnection`]: bytes from and to a client.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Instant;

use terrace_kit::OpenConnection;

use crate::client_memory::HeldBytes;
use crate::executor::RedisTask;
use crate::requests::Requests;
use crate::resp::{Protocol, Resp};
use crate::session::RedisSession;
use crate::stream::RedisStream;

/// A client that does not receive its replies gets no more of them.
pub const MAX_UNSENT_BYTES: usize = 32 << 20;
/// No more bytes than these are read while earlier requests wait.
const MAX_READ_AHEAD_BYTES: usize = 64 << 10;
/// A buffer that has grown beyond this size is released when it is empty.
const MAX_KEPT_BUFFER_BYTES: usize = 64 << 10;

/// A connection.
pub struct RedisConnection {
    /// Its socket.
    pub stream: RedisStream,
    /// The bytes that it has sent.
    pub requests: Requests,
    /// Its state.
    pub session: RedisSession,
    /// The value that it waits for.
    pub waiting: Option<Waiting>,
    /// Whether more requests may be in its bytes.
    pub has_requests: bool,
    /// Whether the socket may have more bytes.
    pub is_readable: bool,
    /// Whether the client sends nothing more. The system says so only once, perhaps before its last bytes are read.
    pub is_closing: bool,
    /// Whether all that it has sent was read.
    pub has_ended: bool,
    /// When it was accepted.
    pub begun: Instant,
    /// When it last sent something.
    pub active: Instant,
    out: Vec<u8>,
    sent: usize,
    /// The memory that it takes.
    held: HeldBytes,
    /// Counts it as open.
    _open: OpenConnection,
    /// Tasks that are to be carried out before more requests are read.
    pub postponed: VecDeque<RedisTask>,
}

/// A command that waits for a value.
pub struct Waiting {
    /// Its number among all that wait.
    pub number: u64,
    /// The memory that the command takes.
    pub bytes: usize,
    /// When it gives up.
    pub until: Option<Instant>,
}

impl RedisConnection {
    /// A new connection.
    pub fn new(
        stream: RedisStream,
        open: OpenConnection,
        requests: Requests,
        session: RedisSession,
        held: HeldBytes,
    ) -> RedisConnection {
        RedisConnection {
            stream,
            requests,
            session,
            waiting: None,
            has_requests: false,
            is_readable: false,
            is_closing: false,
            has_ended: false,
            begun: Instant::now(),
            active: Instant::now(),
            out: Vec::new(),
            sent: 0,
            held,
            _open: open,
            postponed: VecDeque::new(),
        }
    }

    /// Reads once, through a buffer for all connections. Returns the number of bytes.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Ok(0) => {
                self.has_ended = true;
                self.is_readable = false;
            }
            Ok(length) => {
                self.requests.extend(&buffer[..length]);
                self.has_requests = true;
                self.active = Instant::now();
                // A socket that had less has no more for now, and reports when it has.
                self.is_readable = length == buffer.len() || self.is_closing || self.stream.may_hold_more();
                return Ok(length);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(0)
    }

    /// Whether requests of it may be carried out now.
    pub fn may_go_on(&self) -> bool {
        self.waiting.is_none() && !self.session.is_ending && self.unsent_bytes() < MAX_UNSENT_BYTES
    }

    /// Whether more bytes of it may be read now. A client that sends requests faster than they are carried out, or that does not
    /// receive its replies, shall not fill the memory.
    pub fn may_read(&self) -> bool {
        let awaits_rest = !self.has_requests && self.waiting.is_none();
        let has_room = awaits_rest || self.requests.buffered_bytes() < MAX_READ_AHEAD_BYTES;
        self.is_readable && has_room && !self.session.is_ending && self.unsent_bytes() < MAX_UNSENT_BYTES
    }

    /// Whether requests of it can be read or carried out now.
    pub fn can_go_on(&self) -> bool {
        self.may_read() || (self.may_go_on() && (self.has_requests || !self.postponed.is_empty()))
    }

    /// Whether it has sent its last byte, and no request of it is left that can be carried out.
    pub fn has_nothing_left(&self) -> bool {
        let has_requests = self.has_requests || !self.postponed.is_empty();
        self.has_ended && (!has_requests || self.waiting.is_some())
    }

    /// Adds a message that no request asked for.
    pub fn push(&mut self, message: &Resp) {
        self.reply(message, self.session.protocol);
    }

    /// Adds a reply.
    pub fn reply(&mut self, reply: &Resp, protocol: Protocol) {
        reply.encode(protocol, &mut self.out);
    }

    /// The bytes that were not sent yet.
    pub fn unsent_bytes(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Counts the memory that it takes.
    pub fn count_memory(&mut self) {
        let tasks: usize = self.postponed.iter().map(RedisTask::held_bytes).sum();
        let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.bytes);
        let buffers = self.requests.held_bytes() + self.out.capacity();
        self.held.set(buffers + self.session.held_bytes() + tasks + waiting);
    }

    /// The memory that it took at the last count.
    pub fn held_bytes(&self) -> usize {
        self.held.get()
    }

    /// Whether bytes wait until the client takes them.
    pub fn has_unsent(&self) -> bool {
        self.unsent_bytes() > 0 || self.stream.holds_unsent()
    }

    /// Sends replies as far as the client takes them. Returns the number of bytes.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self) -> io::Result<usize> {
        let before = self.sent;
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(self.sent - before),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let length = self.sent - before;
        self.sent = 0;
        match self.out.capacity() > MAX_KEPT_BUFFER_BYTES {
            true => self.out = Vec::new(),
            false => self.out.clear(),
        }
        Ok(length)
    }
}
