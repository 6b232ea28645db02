//! Transposition of matrices: the rows of the source are the columns of the destination.
//!
//! Squares with the side of a cache line are transposed in registers, so that each line is read once and written whole.
//! If the destination is larger than the caches, it is written past them with streaming stores.

use super::transposition::{CACHE_LINE_BYTES, Transposition, fence_streamed_stores};
use super::{Area, Level, MIN_STREAMED_BYTES, avx2, avx512, scalar};
use crate::moves::Move;

/// A move of 4 or 8 bytes whose rows are adjacent in the source and whose elements are adjacent in the destination.
#[derive(Debug)]
pub(super) struct Across<'a>(&'a Move);

/// The order in which squares are transposed: by tiles of rows and elements.
struct Order {
    rows: u64,
    elements: u64,
    /// Whether the tiles, and the squares of each tile, advance along the elements of the destination first.
    tiles_along: bool,
    along: bool,
}

/// The order for areas that fit into the caches: it writes adjacent lines.
const CACHED_ORDER: Order = Order { rows: 64, elements: 512, tiles_along: true, along: true };
/// The order for larger areas: it reads adjacent lines, prefetches them, and touches few pages at a time.
const STREAMED_ORDER: Order = Order { rows: 128, elements: 128, tiles_along: false, along: false };

impl Across<'_> {
    /// Returns `None` if the moves are not a transposition.
    pub fn new(list: &[Move]) -> Option<Across<'_>> {
        let [one] = list else { return None };
        let size = one.size as i64;
        let transposed = one.steps.first()?.1 == size && one.steps.last()?.0 == size;
        (matches!(size, 4 | 8) && transposed).then_some(Across(one))
    }

    /// Executes the move for an area that lies completely within the buffers, with registers of the level, which the
    /// machine must have.
    #[allow(unsafe_code, reason = "squares are parts of the area")]
    pub fn run(&self, area: Area, level: Level, to: &mut [u8], from: &[u8]) {
        let one = self.0;
        let (Some(&row), Some(&element)) = (one.steps.first(), one.steps.last()) else { return };
        let size = one.size as usize;
        let side = (CACHE_LINE_BYTES / size) as u64;
        let first = one.to + area.base.0;
        // The number of elements before the first cache line; it is the same in every row.
        let before = (to.as_ptr().wrapping_offset(first as isize) as usize).wrapping_neg() % CACHE_LINE_BYTES / size;
        let stream = area.rows * area.elements * one.size > MIN_STREAMED_BYTES && row.0 % CACHE_LINE_BYTES as i64 == 0;
        let before = if stream { (before as u64).min(area.elements) } else { 0 };
        let stream = stream && (first + before as i64 * element.0 + to.as_ptr() as i64) % CACHE_LINE_BYTES as i64 == 0;
        let (rows, elements) = (area.rows / side * side, (area.elements - before) / side * side);
        let after = before + elements;
        let transposition =
            Transposition { size, unit: one.unit as usize, steps: (row.0 as isize, element.1 as isize), stream };
        let order = if stream { STREAMED_ORDER } else { CACHED_ORDER };
        order.squares((rows, elements), side, &mut |r, e| {
            let at = |to: i64, row: i64, element: i64| (to + row * r as i64 + element * (before + e) as i64) as isize;
            let source = from.as_ptr().wrapping_offset(at(one.from + area.base.1, row.1, element.1));
            let written = to.as_mut_ptr().wrapping_offset(at(first, row.0, element.0));
            // SAFETY: the square is a part of the area, and lines are aligned where they are streamed.
            unsafe {
                match level {
                    Level::Avx512 => avx512::across::transpose(&transposition, written, source),
                    _ => avx2::across::transpose(&transposition, written, source),
                }
            }
        });
        // The edges that fill no square.
        let rest = |first_row, rows, first_element, elements| Area { first_row, rows, first_element, elements, ..area };
        let rests = [
            rest(0, area.rows, 0, before),
            rest(rows, area.rows - rows, before, elements),
            rest(0, area.rows, after, area.elements - after),
        ];
        rests.into_iter().for_each(|rest| scalar::run(one, rest, to, from));
        if stream {
            fence_streamed_stores();
        }
    }
}

impl Order {
    /// Calls `each` with the first row and the first element of every square.
    fn squares(&self, (rows, elements): (u64, u64), side: u64, each: &mut dyn FnMut(u64, u64)) {
        nested(self.tiles_along, (0, rows, self.rows), (0, elements, self.elements), &mut |row, element| {
            let (last_row, last) = ((row + self.rows).min(rows), (element + self.elements).min(elements));
            nested(self.along, (row, last_row, side), (element, last, side), each);
        });
    }
}

/// Iterates over two ranges by steps. The second range is the inner loop if `second` is set, otherwise the first.
fn nested(second: bool, a: (u64, u64, u64), b: (u64, u64, u64), each: &mut dyn FnMut(u64, u64)) {
    let count = |(first, end, step): (u64, u64, u64)| (first..end).step_by(step as usize);
    if second {
        count(a).for_each(|a| count(b).for_each(|b| each(a, b)));
    } else {
        count(b).for_each(|b| count(a).for_each(|a| each(a, b)));
    }
}
