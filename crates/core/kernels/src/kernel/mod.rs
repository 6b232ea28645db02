//! The inner loops: runs of equal moves, in the widest registers that there are.

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
#[cfg_attr(not(target_arch = "x86_64"), path = "no_vectors.rs")]
mod vectors;

pub use level::Level;
pub(crate) use scalar::copy;
pub(crate) use stage::Stage;
pub(crate) use vectors::turn_over;

use crate::moves::Move;
use vectors::Vectors;

/// More bytes than this are written past the caches.
pub(crate) const STREAM: u64 = 8 << 20;

/// No vectors take more records at once.
pub(crate) const GRAIN: u64 = 64;

/// A part of the innermost two counts: rows, and elements in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    /// The offset added to each place, in the destination and in the source.
    pub base: (i64, i64),
    pub first_row: u64,
    pub rows: u64,
    pub first_element: u64,
    pub elements: u64,
}

/// Those elements of each row of an area that can be moved in whole vectors without leaving the buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Elements before them.
    first: u64,
    /// How many.
    count: u64,
    /// Whether each vector that is written is a whole line.
    lines: bool,
}

/// Moves with two steps each, by row and by element, made ready.
pub(crate) struct Kernel {
    parts: Vec<Part>,
    /// Whether vectors that are whole lines are written past the caches.
    stream: bool,
}

/// Moves that are carried out together.
struct Part {
    /// None: one by one.
    vectors: Option<Vectors>,
    moves: Vec<Move>,
}

impl Kernel {
    /// Makes moves ready for registers of a level, which write past the caches or not.
    pub fn new(list: &[Move], level: Level, stream: bool) -> Kernel {
        Kernel { parts: vectors::parts(list, level, stream), stream }
    }

    /// Whether all moves go through the source together, so that nothing of it is read again.
    pub fn reads_once(&self) -> bool {
        matches!(&self.parts[..], [Part { vectors: Some(vectors), .. }] if vectors.read_once())
    }

    /// Whether all moves are carried out in registers of 64 bytes.
    pub fn is_wide(&self) -> bool {
        self.parts.iter().all(|part| part.vectors.as_ref().is_some_and(Vectors::is_wide))
    }

    /// Carries them out over an area, in blocks of rows and elements; the number of elements is a multiple of [`GRAIN`]. All that they
    /// touch must lie within the buffers. The area begins with the first element.
    pub fn run(&self, area: Area, block: (u64, u64), to: &mut [u8], from: &[u8]) {
        let (rows, elements) = (block.0.max(1), block.1.max(GRAIN));
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
            vectors::settle();
        }
    }
}
