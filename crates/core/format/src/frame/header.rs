//! The header of a frame: its content, and the checksums that show whether it is whole.

use terrace_codec::Encoding;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{MAX_EXTENT_BYTES, SUB_BLOCK_CODED, SUB_BLOCK_RAW};
use crate::Place;

const FRAME_MAGIC: [u8; 4] = *b"TRRF";
const HEADER_VERSION: u8 = 1;
const FIXED_HEADER_BYTES: usize = 64;

/// The longest header, in bytes.
pub const MAX_HEADER: usize = FIXED_HEADER_BYTES + (MAX_EXTENT_BYTES / SUB_BLOCK_RAW) as usize * 20;

/// The identity of a frame: its object, and the bytes that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The object.
    pub object: u64,
    /// The number of the write that made it. It is unique in the store, and says nothing about order.
    pub write: u64,
    /// The first byte's offset in the object.
    pub offset: u64,
    /// The number of the replica among those of the extent.
    pub replica: u8,
}

/// One separately verified part of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubBlock {
    /// Its end in the payload, in bytes.
    pub end: u32,
    /// XXH3-64 of its stored bytes.
    pub stored: u64,
    /// XXH3-64 of its raw bytes. Equal to `stored` if it is stored raw.
    pub raw: u64,
}

/// A frame's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The identity of the frame.
    pub identity: Identity,
    /// Number of bytes before encoding.
    pub raw_len: u32,
    /// Number of bytes of the payload after the header.
    pub stored_len: u32,
    /// The encoding. A sub-block that is as long as its raw bytes is stored raw.
    pub encoding: Encoding,
    /// The payload's parts, in order.
    pub sub_blocks: Vec<SubBlock>,
}

/// Returns the number of raw bytes of a sub-block under `encoding`.
pub fn sub_block_len(encoding: Encoding) -> u32 {
    if encoding == Encoding::NONE { SUB_BLOCK_RAW } else { SUB_BLOCK_CODED }
}

fn entry_len(encoding: Encoding) -> usize {
    if encoding == Encoding::NONE { 12 } else { 20 }
}

/// Returns the length of the header of a frame with `raw_len` bytes under `encoding`.
pub fn header_len(raw_len: u32, encoding: Encoding) -> usize {
    FIXED_HEADER_BYTES + raw_len.div_ceil(sub_block_len(encoding)) as usize * entry_len(encoding)
}

/// Returns the seed of a header's checksum. It binds the header to its store and place, so that a segment file which is
/// stored as an object is never mistaken for a segment of the store.
fn seed(store: u64, place: Place) -> u64 {
    store ^ place.segment.rotate_left(32) ^ place.offset.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Header {
    /// Returns the length of this header in bytes.
    pub fn written_len(&self) -> usize {
        header_len(self.raw_len, self.encoding)
    }

    /// Returns the length of the whole frame in bytes.
    pub fn frame_len(&self) -> u64 {
        self.written_len() as u64 + u64::from(self.stored_len)
    }

    /// Appends the header to `out`, with the checksum that it has at `place` in `store`.
    pub fn write(&self, store: u64, place: Place, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&FRAME_MAGIC);
        out.extend_from_slice(&[HEADER_VERSION, 1, self.identity.replica, 0]);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.identity.object.to_le_bytes());
        out.extend_from_slice(&self.identity.write.to_le_bytes());
        out.extend_from_slice(&self.identity.offset.to_le_bytes());
        out.extend_from_slice(&self.raw_len.to_le_bytes());
        out.extend_from_slice(&self.stored_len.to_le_bytes());
        out.extend_from_slice(&self.encoding.to_bytes());
        out.extend_from_slice(&(self.sub_blocks.len() as u16).to_le_bytes());
        out.extend_from_slice(&[0; 10]);
        for sub in &self.sub_blocks {
            out.extend_from_slice(&sub.end.to_le_bytes());
            out.extend_from_slice(&sub.stored.to_le_bytes());
            if self.encoding != Encoding::NONE {
                out.extend_from_slice(&sub.raw.to_le_bytes());
            }
        }
        let checksum = xxh3_64_with_seed(&out[start..], seed(store, place));
        out[start + 8..start + 16].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads the header at the start of `bytes`. The error says what is wrong with it.
    pub fn read(bytes: &[u8], store: u64, place: Place) -> Result<Header, &'static str> {
        let fixed = bytes.get(..FIXED_HEADER_BYTES).ok_or("the header is cut short")?;
        if fixed[..4] != FRAME_MAGIC {
            return Err("no frame is here");
        }
        if fixed[4] != HEADER_VERSION {
            return Err("the frame has a newer format");
        }
        let encoding = Encoding::from_bytes(array(fixed, 48)).map_err(|_| "the encoding is not known")?;
        let (raw_len, stored_len) = (u32::from_le_bytes(array(fixed, 40)), u32::from_le_bytes(array(fixed, 44)));
        if raw_len == 0 || raw_len > MAX_EXTENT_BYTES || stored_len > raw_len {
            return Err("the header's lengths are impossible");
        }
        let count = raw_len.div_ceil(sub_block_len(encoding)) as usize;
        if count != usize::from(u16::from_le_bytes(array(fixed, 52))) {
            return Err("the header's lengths are impossible");
        }
        let whole = bytes.get(..header_len(raw_len, encoding)).ok_or("the header is cut short")?;
        let mut zeroed = [0u8; MAX_HEADER];
        let copy = &mut zeroed[..whole.len()];
        copy.copy_from_slice(whole);
        copy[8..16].fill(0);
        if xxh3_64_with_seed(copy, seed(store, place)) != u64::from_le_bytes(array(fixed, 8)) {
            return Err("the header's checksum is wrong");
        }
        let mut sub_blocks = Vec::with_capacity(count);
        let mut last = 0;
        for entry in whole[FIXED_HEADER_BYTES..].chunks_exact(entry_len(encoding)) {
            let end = u32::from_le_bytes(array(entry, 0));
            let stored = u64::from_le_bytes(array(entry, 4));
            let raw = if entry.len() == 20 { u64::from_le_bytes(array(entry, 12)) } else { stored };
            if end < last || end > stored_len {
                return Err("the header's lengths are impossible");
            }
            last = end;
            sub_blocks.push(SubBlock { end, stored, raw });
        }
        if last != stored_len {
            return Err("the header's lengths are impossible");
        }
        let identity = Identity {
            object: u64::from_le_bytes(array(fixed, 16)),
            write: u64::from_le_bytes(array(fixed, 24)),
            offset: u64::from_le_bytes(array(fixed, 32)),
            replica: fixed[6],
        };
        Ok(Header { identity, raw_len, stored_len, encoding, sub_blocks })
    }
}

/// Returns the `N` bytes at `at`, which must exist.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
