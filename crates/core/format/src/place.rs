//! The places of frames on targets.

use serde::{Deserialize, Serialize};

/// Frames begin at multiples of this many bytes.
pub const FRAME_ALIGNMENT: u64 = 8;

/// The place of a frame on its target. Places are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The number of the segment file (or group of blobs), unique in the store.
    pub segment: u64,
    /// The frame's first byte in the segment.
    pub offset: u64,
    /// Bytes of the whole frame, header included.
    pub length: u32,
}

/// The bit that distinguishes the numbers of plain files from those of segments.
pub const PLAIN_SEGMENT_BIT: u64 = 1 << 63;

impl Place {
    /// Returns the offset behind the frame.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length.into())
    }

    /// Returns whether this place directly follows another one in a segment file, so that no frame fits between the two. A
    /// long frame begins on a new page, and small ones may be in the rest of the page before it, so the distance matters.
    pub fn follows(&self, before: &Place) -> bool {
        let is_behind = || before.end().next_multiple_of(FRAME_ALIGNMENT) == self.offset;
        self.segment == before.segment && !self.is_plain() && is_behind()
    }

    /// Returns whether it is in a plain file. Then `offset` is that of the header in the file of headers, and the payload is
    /// at its own offset in the object, which the header holds.
    pub fn is_plain(&self) -> bool {
        self.segment & PLAIN_SEGMENT_BIT != 0
    }
}
