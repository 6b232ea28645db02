//! Frames: an extent's bytes as stored, described by a header that can be read without the catalog.
//!
//! The layout, byte by byte, is in `docs/format.md`.

mod header;
mod payload;

pub use header::{Header, Identity, MAX_HEADER, SubBlock, header_len, sub_block_len};
pub use payload::{Coded, Frame, OwnedFrame, Scratch, decode_range, encode, is_payload_of, with_block, with_scratch};

/// Raw bytes of a sub-block of a frame that is stored raw.
pub const SUB_BLOCK_RAW: u32 = 64 << 10;
/// Raw bytes of a sub-block of an encoded frame.
pub const SUB_BLOCK_CODED: u32 = 256 << 10;
/// The longest extent, in raw bytes: a block.
pub const MAX_EXTENT_BYTES: u32 = 1 << 20;
