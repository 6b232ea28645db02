//! Kernels for machines whose vector registers are not used.

use super::{Area, Level, Part, Span};
use crate::moves::Move;

/// There are no vector kernels.
pub(super) enum Vectors {}

impl Vectors {
    pub fn read_once(&self) -> bool {
        match *self {}
    }

    pub fn is_wide(&self) -> bool {
        match *self {}
    }

    pub fn span(&self, _: Area, _: &[u8], _: &[u8]) -> Span {
        match *self {}
    }

    pub fn run(&self, _: Area, _: bool, _: &mut [u8], _: &[u8]) {
        match *self {}
    }
}

/// Returns each move as a part of its own.
pub(super) fn parts(list: &[Move], _: Level, _: bool) -> Vec<Part> {
    vec![Part { vectors: None, moves: list.to_vec() }]
}

/// Does nothing, and returns false.
pub(crate) fn transpose_across(_: &[Move], _: Area, _: Level, _: &mut [u8], _: &[u8]) -> bool {
    false
}

/// Copies bytes; nothing is written past the caches.
pub(super) fn copy_past_caches(to: &mut [u8], from: &[u8], _: *const u8, _: isize) {
    to.copy_from_slice(from);
}

/// Does nothing, because nothing was written past the caches.
pub(super) fn fence_streamed_stores() {}
