//! Where frames lie.

use serde::{Deserialize, Serialize};

/// Frames begin at multiples of this many bytes.
pub const FRAME_ALIGNMENT: u64 = 8;

/// Where a frame lies on its target. Places are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The segment file (or group of blobs); unique in the store.
    pub segment: u64,
    /// The frame's first byte in the segment.
    pub offset: u64,
    /// Bytes of the whole frame, header included.
    pub length: u32,
}

/// Numbers of plain files have this bit, those of segments have not.
pub const PLAIN_SEGMENT_BIT: u64 = 1 << 63;

impl Place {
    /// The first byte behind the frame.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length.into())
    }

    /// Whether this is the place right behind another in a segment file: no frame fits between the two. A long frame begins on
    /// a page of its own, and small ones may lie in what is left of the page before it, so what is between counts.
    pub fn follows(&self, before: &Place) -> bool {
        let is_behind = || before.end().next_multiple_of(FRAME_ALIGNMENT) == self.offset;
        self.segment == before.segment && !self.is_plain() && is_behind()
    }

    /// Whether it is in a plain file. Then `offset` is the header's, in the file of headers, and the payload stands where the
    /// header says: at its own offset in the object.
    pub fn is_plain(&self) -> bool {
        self.segment & PLAIN_SEGMENT_BIT != 0
    }
}
