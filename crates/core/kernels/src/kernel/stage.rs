//! Large arrays or records that are written past the caches, at any alignment.
//!
//! Blocks are assembled in a buffer that stays in the caches, and copied from there line by line.

use smallvec::smallvec;

use super::record::Record;
use super::{Area, Kernel, Level, MAX_VECTOR_RECORDS, vectors};
use crate::moves::Move;

/// The size of a block.
const BLOCK_BYTES: u64 = 96 << 10;
/// Shorter records are not staged: they are assembled in place faster than a block of them is copied.
const MIN_STAGED_RECORD_BYTES: u64 = 32;
/// The size of a page.
const PAGE_BYTES: u64 = 4 << 10;

/// Prepared moves into arrays or records.
pub(crate) struct Stage {
    /// Moves elements into the buffer of a block, as if it were a row.
    kernel: Kernel,
    /// The number of elements in a block.
    elements: u64,
    /// The moves, and their offsets in a block.
    moves: Vec<(Move, usize)>,
    /// The destination of records and their size, if the moves fill records.
    records: Option<(i64, u64)>,
    memory: Vec<u8>,
}

impl Stage {
    /// Returns `None` unless each move fills an array, and all arrays have the same step between rows, or all moves together fill records from arrays
    /// that lie whole pages apart.
    pub fn new(list: &[Move], level: Level) -> Option<Stage> {
        let first = list.first()?;
        let is_array = |one: &Move| {
            let (row, element) = (one.steps.first(), one.steps.last());
            one.size < 64 && element.is_some_and(|step| step.0 == one.size as i64) && row == first.steps.first()
        };
        let arrays = list.len() >= 2 && list.iter().all(is_array);
        let record =
            record_of(list).filter(|(_, size)| !arrays && *size >= MIN_STAGED_RECORD_BYTES && are_pages_apart(list));
        if level == Level::Scalar || !arrays && record.is_none() {
            return None;
        }
        let size: u64 = list.iter().map(|one| one.size).sum();
        let elements = (BLOCK_BYTES / size / MAX_VECTOR_RECORDS).max(1) * MAX_VECTOR_RECORDS;
        let (mut staged, mut moves, mut end) = (Vec::new(), Vec::new(), 0);
        for one in list {
            let step = one.steps.last()?.1;
            let (to, width) = match record {
                Some((to, size)) => (one.to - to, size as i64),
                None => (end as i64, one.size as i64),
            };
            let steps = smallvec![(0, step * elements as i64), (width, step)];
            staged.push(Move { to, steps, ..one.clone() });
            moves.push((one.clone(), end));
            end += (one.size * elements) as usize;
        }
        let kernel = Kernel::new(&staged, level, false);
        if record.is_some() && !kernel.reads_once() {
            return None;
        }
        Some(Stage { kernel, elements, moves, records: record, memory: vec![0; end] })
    }

    /// Executes the moves for an area. All accessed bytes must lie within the buffers.
    pub fn run(&mut self, area: Area, to: &mut [u8], from: &[u8]) {
        for row in 0..area.rows as i64 {
            for (block, first) in (0..).zip((0..area.elements).step_by(self.elements as usize)) {
                let elements = self.elements.min(area.elements - first);
                let shift = |one: &Move| one.steps.first().map_or((0, 0), |step| (step.0 * row, step.1 * row));
                let shift = self.moves.first().map_or((0, 0), |(one, _)| shift(one));
                let base = (0, area.base.1 + shift.1);
                let here = Area { base, first_row: block, rows: 1, first_element: 0, elements };
                self.kernel.run(here, (1, elements.next_multiple_of(MAX_VECTOR_RECORDS)), &mut self.memory, from);
                for (one, start) in &self.moves {
                    let step = one.steps.last().map_or(0, |step| step.1);
                    let next = base.1 + one.from + step * (first + self.elements) as i64;
                    // For records, the copied bytes are contiguous in the destination.
                    let (next, start, at) = match self.records {
                        None => (next + step.signum() * *start as i64, *start, one.to + (one.size * first) as i64),
                        Some((to, size)) => {
                            let start = (one.to - to) as u64 * elements;
                            (next, start as usize, to + (size * first + start) as i64)
                        }
                    };
                    let ahead = from.as_ptr().wrapping_offset(next as isize);
                    let at = (at + area.base.0 + shift.0) as usize;
                    let length = (one.size * elements) as usize;
                    if let (Some(to), Some(bytes)) =
                        (to.get_mut(at..at + length), self.memory.get(start..start + length))
                    {
                        vectors::copy_past_caches(to, bytes, ahead, step.signum() as isize * 64);
                    }
                }
            }
        }
        vectors::fence_streamed_stores();
    }
}

/// Returns whether sources lie whole pages apart. They then compete for the same few sets of a cache, so it is best to
/// read a stretch of one before the next.
fn are_pages_apart(list: &[Move]) -> bool {
    list.windows(2).all(|pair| matches!(pair, [a, b] if (b.from - a.from).unsigned_abs().is_multiple_of(PAGE_BYTES)))
}

/// Returns the destination and the size of the records that the moves fill without gaps, with equal rows.
fn record_of(list: &[Move]) -> Option<(i64, u64)> {
    let record = Record::of(list)?;
    let row = (record.row, record.fields.first()?.steps.first()?.1);
    record.fields.iter().all(|one| one.steps.first() == Some(&row)).then_some((record.to, record.size))
}
