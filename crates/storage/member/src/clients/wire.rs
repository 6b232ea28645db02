//! The messages between a client and its node. Each is its length, in four bytes, and its fields as postcard encodes them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terrace_catalog::Verdict;

use crate::error::MemberError;

/// Client and node must have the same.
pub const PROTOCOL_VERSION: u32 = 1;
/// At most this number of changes are in one request: the catalog keeps the verdicts of as many of a session.
pub const MAX_CHANGES: usize = 64;
/// As many changes of the longest kind. A longer message is none of ours.
const MAX_MESSAGE_BYTES: u32 = 80 << 20;
const SOCKET_NAME: &str = "node.sock";

/// A client's request. `C` is a change, or a reference to one.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request<C> {
    /// The first request of a connection.
    Hello { version: u32, store: u64 },
    /// Begins a session.
    Begin { patience: Duration },
    /// Carries out changes of a session, whose numbers begin with `first`.
    Change { session: u64, first: u64, changes: Vec<C>, patience: Duration },
    /// Ends a session. There is no answer.
    End { session: u64 },
    /// Waits until the node's catalog has all that was acknowledged before.
    CatchUp { patience: Duration },
    /// Gives out numbers that nobody else has.
    Claim { count: u64, patience: Duration },
}

/// A node's answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Welcome,
    Begun { session: u64 },
    Decided(Vec<Verdict>),
    CaughtUp,
    Claimed { first: u64 },
    Failed(Failure),
}

/// Why a node did not do what it was asked for.
#[derive(Debug, Serialize, Deserialize)]
pub enum Failure {
    /// It is not known whether it did, nor will it be.
    Unknown { reason: String },
    /// The shared log did not answer.
    Silent,
    /// A change does not fit into a record.
    TooLarge { bytes: u64 },
    /// Anything else, in words.
    Refused { reason: String },
}

impl Failure {
    /// The failure of a request for changes. The log may have them.
    pub fn of_change(error: MemberError) -> Failure {
        match error {
            MemberError::TooLarge(too_large) => Failure::TooLarge { bytes: too_large.bytes as u64 },
            MemberError::Unknown { waited, .. } => {
                Failure::Unknown { reason: format!("the shared log did not answer within {waited:?}") }
            }
            other => Failure::Unknown { reason: other.to_string() },
        }
    }

    /// The failure of another request, which has changed nothing.
    pub fn of_question(error: MemberError) -> Failure {
        match error {
            MemberError::Silent { .. } => Failure::Silent,
            other => Failure::Refused { reason: other.to_string() },
        }
    }
}

/// Sends a message in one call of the system. `buffer` is used again.
pub fn send(to: &mut impl Write, buffer: &mut Vec<u8>, message: &impl Serialize) -> io::Result<()> {
    buffer.clear();
    buffer.extend_from_slice(&[0; 4]);
    *buffer = postcard::to_extend(message, std::mem::take(buffer)).map_err(io::Error::other)?;
    let length = u32::try_from(buffer.len() - 4).ok().filter(|length| *length <= MAX_MESSAGE_BYTES);
    let length = length.ok_or_else(|| io::Error::other("a message to or from the node is too long"))?;
    buffer[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(buffer)
}

/// Receives a message. `buffer` is used again.
///
/// # Errors
/// `UnexpectedEof` if the other side has closed the connection; `InvalidData` if this is no message.
pub fn receive<M: DeserializeOwned>(from: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<M> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    let wrong = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    if length > MAX_MESSAGE_BYTES {
        return Err(wrong(format!("a message of {length} bytes")));
    }
    buffer.clear();
    // Grows with what comes, not with what is announced.
    if from.take(length.into()).read_to_end(buffer)? < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(buffer).map_err(|error| wrong(error.to_string()))
}

/// A socket's address has at most 108 bytes, so the socket is named by way of its open directory.
pub struct Address {
    folder: File,
    store: PathBuf,
}

impl Address {
    pub fn new(store: &Path) -> io::Result<Address> {
        Ok(Address { folder: File::open(store)?, store: store.to_owned() })
    }

    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}/{SOCKET_NAME}", self.folder.as_raw_fd()).into()
    }

    /// The path for people.
    pub fn shown(&self) -> PathBuf {
        self.store.join(SOCKET_NAME)
    }
}
