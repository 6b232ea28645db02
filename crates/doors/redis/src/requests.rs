//! [`Requests`]: the requests of a connection, in the protocol that its server speaks.

use crate::limits::Dialect;
use crate::memcached::{MemcachedCommand, MemcachedReader, TooLongLine};
use crate::request::{RequestReader, Words};
use crate::resp::Resp;

/// A request.
pub enum Request {
    /// One of Redis: a command and its arguments.
    Words(Words),
    /// One of memcached.
    Item(MemcachedCommand),
}

/// Takes requests out of the bytes of a connection.
pub enum Requests {
    /// For clients of Redis.
    Redis(RequestReader),
    /// For clients of memcached.
    Memcached(MemcachedReader),
}

impl Requests {
    /// No bytes have arrived.
    pub fn new(dialect: Dialect) -> Requests {
        match dialect {
            Dialect::Redis => Requests::Redis(RequestReader::default()),
            Dialect::Memcached { max_item_bytes } => Requests::Memcached(MemcachedReader::new(max_item_bytes)),
        }
    }

    /// Takes bytes that have arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        match self {
            Requests::Redis(reader) => reader.extend(bytes),
            Requests::Memcached(reader) => reader.extend(bytes),
        }
    }

    /// The number of bytes that were not read as requests yet.
    pub fn buffered_bytes(&self) -> usize {
        match self {
            Requests::Redis(reader) => reader.buffered_bytes(),
            Requests::Memcached(reader) => reader.buffered_bytes(),
        }
    }

    /// The memory that they take.
    pub fn held_bytes(&self) -> usize {
        match self {
            Requests::Redis(reader) => reader.held_bytes(),
            Requests::Memcached(reader) => reader.held_bytes(),
        }
    }

    /// Returns the next request, or none if its end has not arrived. `is_trusted` clients may send long ones.
    ///
    /// # Errors
    /// The last reply, if no request can begin like this. Nothing more can be read then.
    pub fn next(&mut self, is_trusted: bool) -> Result<Option<Request>, Resp> {
        match self {
            Requests::Redis(reader) => match reader.next(is_trusted) {
                Ok(words) => Ok(words.map(Request::Words)),
                Err(malformed) => Err(Resp::Error(format!("ERR {malformed}"))),
            },
            Requests::Memcached(reader) => match reader.next(is_trusted) {
                Ok(command) => Ok(command.map(Request::Item)),
                Err(TooLongLine) => Err(Resp::Status(TooLongLine::REPLY_LINE)),
            },
        }
    }
}
