//! Requests: bytes for a place in a destination.

use std::sync::Arc;

use bytes::Bytes;

pub use crate::error::MAX_REQUEST_BYTES;
use crate::{Error, Result};

/// A destination's or a producer's name.
pub type Name = Arc<[u8]>;

/// The longest name of a destination, counting each `/` and `%` as three bytes, because the escaped name is part of a key.
const MAX_ESCAPED_NAME_BYTES: usize = 900;

/// The place of a request's bytes in its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind all bytes that were delivered before.
    Append,
    /// At this offset.
    At(u64),
}

/// Bytes for a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The destination: a path below the stream's target, such as `runs/a.h5`.
    pub destination: Name,
    /// The place in the destination.
    pub place: Place,
    /// The bytes.
    pub bytes: Bytes,
    /// Whether the destination ends behind these bytes; later bytes are cut off.
    pub ends: bool,
}

/// The sender of a request, used to recognise duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The producer's name.
    pub producer: Name,
    /// Its sequence among the producer's requests, starting at 1.
    pub sequence: u64,
}

/// A request with its origin, as the frame format encodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// The request.
    pub request: Request,
    /// The sender; `None` if the request is never sent again.
    pub origin: Option<Origin>,
}

impl From<Request> for Framed {
    fn from(request: Request) -> Framed {
        Framed { request, origin: None }
    }
}

impl Request {
    /// Creates a request that appends bytes.
    pub fn append(destination: impl AsRef<[u8]>, bytes: impl Into<Bytes>) -> Request {
        let (destination, place) = (destination.as_ref().into(), Place::Append);
        Request { destination, place, bytes: bytes.into(), ends: false }
    }

    /// Creates a request that writes bytes at an offset.
    pub fn at(destination: impl AsRef<[u8]>, offset: u64, bytes: impl Into<Bytes>) -> Request {
        let (destination, place) = (destination.as_ref().into(), Place::At(offset));
        Request { destination, place, bytes: bytes.into(), ends: false }
    }

    /// # Errors
    /// If its destination or its length is invalid.
    pub fn check(&self) -> Result<()> {
        if self.bytes.len() > MAX_REQUEST_BYTES {
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
/// If the name would lead out of the stream's target, is one under which another file's parts gather, or is too long.
pub fn check_destination(name: &[u8]) -> Result<()> {
    let refuse = |reason: String| Error::BadDestination { name: String::from_utf8_lossy(name).into(), reason };
    terrace::key::check(name).map_err(|e| refuse(e.to_string()))?;
    if name.rsplit(|byte| *byte == b'/').next().is_some_and(terrace::is_part_name) {
        return Err(refuse("files gather under such names until they are whole; take another".to_owned()));
    }
    match escape(name).len() {
        0..=MAX_ESCAPED_NAME_BYTES => Ok(()),
        length => Err(refuse(format!("it takes {length} bytes, and {MAX_ESCAPED_NAME_BYTES} are allowed"))),
    }
}

/// Escapes the name as one component of a key.
pub fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'/' => escaped.extend_from_slice(b"%2F"),
            b'%' => escaped.extend_from_slice(b"%25"),
            // A component of only dots is not allowed in a key.
            b'.' if name.iter().all(|b| *b == b'.') => escaped.extend_from_slice(b"%2E"),
            _ => escaped.push(byte),
        }
    }
    escaped
}

/// Reverses [`escape`].
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
