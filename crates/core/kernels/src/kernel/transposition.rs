//! [`Transposition`]: the transposition of one square, for registers of each width.

use std::arch::x86_64::_mm_sfence;

/// The size of a cache line.
pub(super) const CACHE_LINE_BYTES: usize = 64;

/// The transposition of one square with the side of a cache line.
pub(super) struct Transposition {
    /// The size of an element, and of the unit that is byte-swapped in it.
    pub size: usize,
    pub unit: usize,
    /// The distances between rows in the destination and in the source.
    pub steps: (isize, isize),
    /// Whether lines are written with streaming stores, past the caches.
    pub stream: bool,
}

/// Returns a shuffle mask for 16 bytes that swaps the bytes of each unit.
pub(super) fn mask(unit: usize) -> [u8; 16] {
    std::array::from_fn(|byte| (byte / unit * unit + (unit - 1 - byte % unit)) as u8)
}

/// Orders the streaming stores before all later stores. Without the fence, another core could see a later store first.
#[allow(unsafe_code, reason = "every x86-64 has the instruction")]
pub(super) fn fence_streamed_stores() {
    // SAFETY: it belongs to SSE.
    unsafe { _mm_sfence() }
}
