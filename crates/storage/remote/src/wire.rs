//! The words of the protocol, which both sides share.

use std::io;

use serde::{Deserialize, Serialize};
use terrace_format::frame::{Header, MAX_EXTENT_BYTES, MAX_HEADER};
use terrace_tier::{Place, marker_text};

/// The longest frame.
pub const MAX_FRAME_BYTES: usize = MAX_EXTENT_BYTES as usize + MAX_HEADER;
/// The longest body of a request: a frame, or a list of places.
pub const MAX_REQUEST_BYTES: usize = 2 << 20;
/// The most places in a request, each of at most 80 bytes.
pub const MAX_PLACES: usize = MAX_REQUEST_BYTES / 80;
/// The longest body of an answer.
pub const MAX_ANSWER_BYTES: usize = 8 << 20;
/// Offsets and numbers of segments are below this, so that no sum of them overflows.
pub const MAX_OFFSET: u64 = 1 << 62;

/// The store and the target that a request is for.
pub const OWNER_HEADER: &str = "terrace-target";
/// The kind of error, where the node of a target reports one.
pub const ERROR_HEADER: &str = "terrace-error";
/// The incarnation of the target's contents.
pub const INCARNATION_HEADER: &str = "terrace-incarnation";
/// Where the next page of headers begins: a segment and an offset. Missing on the last page.
pub const NEXT_HEADER: &str = "terrace-next";
/// The error of an append that needs a number for a new segment.
pub const NUMBER_NEEDED: &str = "number-needed";

/// The errors that cross the wire as they are. All others become [`io::ErrorKind::Other`], which sets the target aside.
const ERROR_NAMES: [(&str, u16, io::ErrorKind); 8] = [
    ("not-found", 404, io::ErrorKind::NotFound),
    ("cut-short", 410, io::ErrorKind::UnexpectedEof),
    ("damaged", 422, io::ErrorKind::InvalidData),
    ("full", 507, io::ErrorKind::StorageFull),
    ("read-only", 403, io::ErrorKind::ReadOnlyFilesystem),
    ("another", 409, io::ErrorKind::AlreadyExists),
    ("away", 503, io::ErrorKind::NotConnected),
    ("other", 500, io::ErrorKind::Other),
];

/// The name and the status of an error.
pub fn error_name(kind: io::ErrorKind) -> (&'static str, u16) {
    let known = ERROR_NAMES.iter().find(|(.., known)| *known == kind);
    known.map_or(("other", 500), |(name, status, _)| (name, *status))
}

/// The kind of error of this name.
pub fn error_kind(name: &str) -> io::ErrorKind {
    let known = ERROR_NAMES.iter().find(|(known, ..)| *known == name);
    known.map_or(io::ErrorKind::Other, |(.., kind)| *kind)
}

/// The owner of a target: a store, and its number for the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The store's id.
    pub store: u64,
    /// The target's number in the store.
    pub target: u16,
}

impl Owner {
    /// The text of the marker.
    pub fn mark(&self) -> String {
        marker_text(self.store, self.target)
    }

    /// Reads a marker.
    pub fn from_mark(mark: &[u8]) -> Option<Owner> {
        let (store, target) = std::str::from_utf8(mark).ok()?.strip_prefix("store ")?.split_once("\ntarget ")?;
        let owner = Owner { store: u64::from_str_radix(store, 16).ok()?, target: target.trim_end().parse().ok()? };
        (owner.mark().as_bytes() == mark).then_some(owner)
    }

    /// The value of [`OWNER_HEADER`].
    pub fn header(&self) -> String {
        format!("{:016x}/{}", self.store, self.target)
    }
}

/// The answer to an append.
#[derive(Serialize, Deserialize)]
pub struct Appended {
    /// The place of the frame.
    pub place: Place,
}

/// The answer of `space`.
#[derive(Serialize, Deserialize)]
pub struct SpaceAnswer {
    /// As in [`terrace_tier::Space`].
    pub used: u64,
    /// As in [`terrace_tier::Space`].
    pub capacity: u64,
    /// As in [`terrace_tier::Space`].
    pub read_only: bool,
}

/// The answer about a segment that exists.
#[derive(Serialize, Deserialize)]
pub struct SegmentAnswer {
    /// The bytes that it takes on the device.
    pub allocated: u64,
}

/// Bytes of a place in a page of headers.
const PLACE_BYTES: usize = 20;

/// Adds a frame's place and header to a page.
pub fn write_header(page: &mut Vec<u8>, store: u64, place: Place, header: &Header) {
    page.extend_from_slice(&place.segment.to_le_bytes());
    page.extend_from_slice(&place.offset.to_le_bytes());
    page.extend_from_slice(&place.length.to_le_bytes());
    header.write(store, place, page);
}

/// Reads a page of headers. Each has a checksum over its bytes and its place.
///
/// # Errors
/// The reason why the bytes are no page.
pub fn read_headers(mut page: &[u8], store: u64) -> Result<Vec<(Place, Header)>, &'static str> {
    let mut found = Vec::new();
    while let Some((place, rest)) = page.split_first_chunk::<PLACE_BYTES>() {
        let (segment, offset) = place.split_at(8);
        let (offset, length) = offset.split_at(8);
        let long = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let place = Place { segment: long(segment), offset: long(offset), length: long(length) as u32 };
        let header = Header::read(rest, store, place)?;
        page = &rest[header.written_len()..];
        found.push((place, header));
    }
    if page.is_empty() { Ok(found) } else { Err("a page of headers is cut short") }
}
