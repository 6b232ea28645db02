//! The names of the blobs of frames on a service.

use terrace_format::Place;

/// The prefix of the blobs of frames.
pub const SEGMENTS_PREFIX: &str = "segments/";
/// The most blobs in a segment.
pub const SLOTS_PER_SEGMENT: u64 = 1024;
/// A blob's offset in its segment is its number times this. All frames are shorter.
pub const SLOT_BYTES: u64 = 2 << 20;

/// Parses the name of a blob into its segment and slot.
pub(crate) fn parse(name: &str) -> Option<(u64, u64)> {
    let (segment, slot) = name.strip_prefix(SEGMENTS_PREFIX)?.split_once('/')?;
    let number = |hex: &str, digits| (hex.len() == digits).then(|| u64::from_str_radix(hex, 16).ok())?;
    Some((number(segment, 16)?, number(slot, 3).filter(|slot| *slot < SLOTS_PER_SEGMENT)?))
}

/// Returns the place of the frame in a blob of this name and length. None if it is no frame's.
pub fn frame_place(name: &str, length: usize) -> Option<Place> {
    let (segment, slot) = parse(name)?;
    Some(Place { segment, offset: slot * SLOT_BYTES, length: u32::try_from(length).ok()? })
}
