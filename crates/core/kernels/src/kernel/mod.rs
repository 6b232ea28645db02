//! The inner loops: runs of equal moves, with the widest registers of the machine.

#[cfg(target_arch = "x86_64")]
mod across;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod level;
mod record;
mod scalar;
mod stage;
#[cfg(target_arch = "x86_64")]
mod transposition;
#[cfg_attr(not(target_arch = "x86_64"), path = "no_vectors.rs")]
mod vectors;

pub use level::Level;
pub(crate) use scalar::copy;
pub(crate) use stage::Stage;
pub(crate) use vectors::transpose_across;

use crate::moves::Move;
use vectors::Vectors;

/// Larger destinations are written past the caches.
pub(crate) const MIN_STREAMED_BYTES: u64 = 8 << 20;

/// The largest number of records that a vector kernel moves at once.
pub(crate) const MAX_VECTOR_RECORDS: u64 = 64;

/// A part of the two innermost loops of [`Moves`](crate::Moves): some rows, and some elements of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    /// The offset added to the start of each move, in the destination and in the source.
    pub base: (i64, i64),
    pub first_row: u64,
    pub rows: u64,
    pub first_element: u64,
    pub elements: u64,
}

/// The elements of each row of an area that can be moved in whole vectors without leaving the buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// The number of elements before them.
    first: u64,
    /// The number of elements.
    count: u64,
    /// Whether each written vector is a whole cache line.
    lines: bool,
}

/// Prepared moves, each with two steps: to the next row, and to the next element.
pub(crate) struct Kernel {
    parts: Vec<Part>,
    /// Whether vectors that are whole cache lines are written past the caches.
    stream: bool,
}

/// Moves that are executed together.
struct Part {
    /// The vector kernel; `None` if the moves run one by one.
    vectors: Option<Vectors>,
    moves: Vec<Move>,
}

impl Kernel {
    /// Prepares moves for registers of a level. `stream` says whether they write past the caches.
    pub fn new(list: &[Move], level: Level, stream: bool) -> Kernel {
        Kernel { parts: vectors::parts(list, level, stream), stream }
    }

    /// Returns whether all moves pass through the source together, so that each byte is read once.
    pub fn reads_once(&self) -> bool {
        matches!(&self.parts[..], [Part { vectors: Some(vectors), .. }] if vectors.read_once())
    }

    /// Returns whether all moves use registers of 64 bytes.
    pub fn is_wide(&self) -> bool {
        self.parts.iter().all(|part| part.vectors.as_ref().is_some_and(Vectors::is_wide))
    }

    /// Executes the moves for an area, in blocks of rows and elements. The number of elements of a block must be a multiple
    /// of [`MAX_VECTOR_RECORDS`]. All accessed bytes must lie within the buffers. `area.first_element` must be 0.
    pub fn run(&self, area: Area, block: (u64, u64), to: &mut [u8], from: &[u8]) {
        let (rows, elements) = (block.0.max(1), block.1.max(MAX_VECTOR_RECORDS));
        let span = |part: &Part| part.vectors.as_ref().map_or(Span::default(), |vectors| vectors.span(area, to, from));
        let spans: Vec<Span> = self.parts.iter().map(span).collect();
        for first_row in (0..area.rows).step_by(rows as usize) {
            let rows = rows.min(area.rows - first_row);
            let area = Area { first_row: area.first_row + first_row, rows, ..area };
            for first_element in (0..area.elements).step_by(elements as usize) {
                for (part, span) in self.parts.iter().zip(&spans) {
                    let elements = elements.min(span.count.saturating_sub(first_element));
                    let here = Area { first_element: span.first + first_element, elements, ..area };
                    if let Some(vectors) = part.vectors.as_ref().filter(|_| elements > 0) {
                        vectors.run(here, self.stream && span.lines, to, from);
                    }
                }
            }
            for (part, span) in self.parts.iter().zip(&spans) {
                let end = span.first + span.count;
                for (first_element, elements) in [(0, span.first), (end, area.elements - end)] {
                    let rest = Area { first_element, elements, ..area };
                    part.moves.iter().for_each(|one| scalar::run(one, rest, to, from));
                }
            }
        }
        if self.stream {
            vectors::fence_streamed_stores();
        }
    }
}
