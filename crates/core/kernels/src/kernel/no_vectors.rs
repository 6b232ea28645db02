//! Machines whose registers are not used.

use super::{Area, Level, Part, Span};
use crate::moves::Move;

/// There are none.
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

/// Each move by itself.
pub(super) fn parts(list: &[Move], _: Level, _: bool) -> Vec<Part> {
    vec![Part { vectors: None, moves: list.to_vec() }]
}

/// Never.
pub(crate) fn turn_over(_: &[Move], _: Area, _: Level, _: &mut [u8], _: &[u8]) -> bool {
    false
}

/// Nothing is written past the caches.
pub(super) fn past_caches(to: &mut [u8], from: &[u8], _: *const u8, _: isize) {
    to.copy_from_slice(from);
}

/// Nothing was written past the caches.
pub(super) fn settle() {}
