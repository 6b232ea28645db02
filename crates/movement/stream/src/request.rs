//! Requests: bytes for a place in a destination.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Error, Result};

/// A destination's or a producer's name.
pub type Name = Arc<[u8]>;

/// Bytes of a request, at most.
pub const MOST_BYTES: usize = 16 << 20;
/// Bytes of a destination's name, at most, each `/` and `%` counted three times: it is part of a key.
const MOST_NAME: usize = 900;

/// Where in its destination a request's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind all that went there before.
    Append,
    /// At this offset.
    At(u64),
}

/// Bytes for a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where they go: a path below what the stream flushes to, such as `runs/a.h5`.
    pub destination: Name,
    /// Where in it.
    pub place: Place,
    /// The bytes.
    pub bytes: Bytes,
    /// Whether the destination ends behind them: what it holds there is cut off.
    pub ends: bool,
}

/// Who sent a request, so that it is known when it is sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The producer's name.
    pub producer: Name,
    /// Its number among the producer's requests, which begin with 1.
    pub sequence: u64,
}

/// A request with its origin, as it is framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// The request.
    pub request: Request,
    /// Who sent it; none where it will not be sent again.
    pub origin: Option<Origin>,
}

impl From<Request> for Framed {
    fn from(request: Request) -> Framed {
        Framed { request, origin: None }
    }
}

impl Request {
    /// Bytes behind all that went to the destination before.
    pub fn append(destination: impl AsRef<[u8]>, bytes: impl Into<Bytes>) -> Request {
        let (destination, place) = (destination.as_ref().into(), Place::Append);
        Request { destination, place, bytes: bytes.into(), ends: false }
    }

    /// Bytes at an offset.
    pub fn at(destination: impl AsRef<[u8]>, offset: u64, bytes: impl Into<Bytes>) -> Request {
        let (destination, place) = (destination.as_ref().into(), Place::At(offset));
        Request { destination, place, bytes: bytes.into(), ends: false }
    }

    /// # Errors
    /// Where its destination or its length is not allowed.
    pub fn check(&self) -> Result<()> {
        if self.bytes.len() > MOST_BYTES {
            return Err(Error::TooLong { bytes: self.bytes.len() });
        }
        let overflows = |at: u64| at.checked_add(self.bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64);
        if matches!(self.place, Place::At(at) if overflows(at)) {
            return Err(self.refuse("the offset is beyond what a file can have"));
        }
        check_destination(&self.destination)
    }

    fn refuse(&self, reason: &str) -> Error {
        Error::BadDestination { name: String::from_utf8_lossy(&self.destination).into(), reason: reason.into() }
    }
}

/// # Errors
/// Where the name would lead out of what the stream flushes to, or is too long.
pub fn check_destination(name: &[u8]) -> Result<()> {
    let refuse = |reason: String| Error::BadDestination { name: String::from_utf8_lossy(name).into(), reason };
    terrace::key::check(name).map_err(|e| refuse(e.to_string()))?;
    match escape(name).len() {
        0..=MOST_NAME => Ok(()),
        length => Err(refuse(format!("it takes {length} bytes, and {MOST_NAME} are allowed"))),
    }
}

/// The name as one component of a key.
pub fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'/' => escaped.extend_from_slice(b"%2F"),
            b'%' => escaped.extend_from_slice(b"%25"),
            // A name of dots is no component.
            b'.' if name.iter().all(|b| *b == b'.') => escaped.extend_from_slice(b"%2E"),
            _ => escaped.push(byte),
        }
    }
    escaped
}

/// The name that was escaped so.
pub fn unescape(escaped: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((&byte, after)) = rest.split_first() {
        let coded = match rest {
            [b'%', b'2', b'F', ..] => Some(b'/'),
            [b'%', b'2', b'5', ..] => Some(b'%'),
            [b'%', b'2', b'E', ..] => Some(b'.'),
            _ => None,
        };
        name.push(coded.unwrap_or(byte));
        rest = if coded.is_some() { rest.get(3..).unwrap_or_default() } else { after };
    }
    name
}
