//! Large arrays, or records, written past the caches, whatever lines they begin in.
//!
//! A block of them is put together in memory that the caches hold, and copied from there, line by line.

use smallvec::smallvec;

use super::record::Record;
use super::{Area, GRAIN, Kernel, Level, vectors};
use crate::moves::Move;

/// Bytes of a block.
const BLOCK: u64 = 96 << 10;
/// Records that are shorter are put together quicker than they are copied.
const LONG: u64 = 32;
/// Bytes of a page.
const PAGE: u64 = 4 << 10;

/// Arrays, or records, made ready.
pub(crate) struct Stage {
    /// Moves blocks, as if they were rows, to where they are copied from.
    kernel: Kernel,
    /// Elements in a block.
    elements: u64,
    /// The moves, and from where on they are in a block.
    moves: Vec<(Move, usize)>,
    /// Where records go in the end, and their size.
    records: Option<(i64, u64)>,
    memory: Vec<u8>,
}

impl Stage {
    /// None where moves do not each fill an array, row by row alike, nor together records of arrays that lie pages apart.
    pub fn new(list: &[Move], level: Level) -> Option<Stage> {
        let first = list.first()?;
        let is_array = |one: &Move| {
            let (row, element) = (one.steps.first(), one.steps.last());
            one.size < 64 && element.is_some_and(|step| step.0 == one.size as i64) && row == first.steps.first()
        };
        let arrays = list.len() >= 2 && list.iter().all(is_array);
        let record = record_of(list).filter(|(_, size)| !arrays && *size >= LONG && are_pages_apart(list));
        if level == Level::Scalar || !arrays && record.is_none() {
            return None;
        }
        let size: u64 = list.iter().map(|one| one.size).sum();
        let elements = (BLOCK / size / GRAIN).max(1) * GRAIN;
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

    /// Carries the moves out over an area. All that they touch must lie within the buffers.
    pub fn run(&mut self, area: Area, to: &mut [u8], from: &[u8]) {
        for row in 0..area.rows as i64 {
            for (block, first) in (0..).zip((0..area.elements).step_by(self.elements as usize)) {
                let elements = self.elements.min(area.elements - first);
                let shift = |one: &Move| one.steps.first().map_or((0, 0), |step| (step.0 * row, step.1 * row));
                let shift = self.moves.first().map_or((0, 0), |(one, _)| shift(one));
                let base = (0, area.base.1 + shift.1);
                let here = Area { base, first_row: block, rows: 1, first_element: 0, elements };
                self.kernel.run(here, (1, elements.next_multiple_of(GRAIN)), &mut self.memory, from);
                for (one, start) in &self.moves {
                    let step = one.steps.last().map_or(0, |step| step.1);
                    let next = base.1 + one.from + step * (first + self.elements) as i64;
                    // Of records as many bytes are written as the move brings, wherever they go.
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
                        vectors::past_caches(to, bytes, ahead, step.signum() as isize * 64);
                    }
                }
            }
        }
        vectors::settle();
    }
}

/// Whether sources lie apart by whole pages: then they meet in the same few places of a cache, and are best read a while each.
fn are_pages_apart(list: &[Move]) -> bool {
    list.windows(2).all(|pair| matches!(pair, [a, b] if (b.from - a.from).unsigned_abs().is_multiple_of(PAGE)))
}

/// Where records go that moves fill without gaps, row by row alike, and their size.
fn record_of(list: &[Move]) -> Option<(i64, u64)> {
    let record = Record::of(list)?;
    let row = (record.row, record.fields.first()?.steps.first()?.1);
    record.fields.iter().all(|one| one.steps.first() == Some(&row)).then_some((record.to, record.size))
}
