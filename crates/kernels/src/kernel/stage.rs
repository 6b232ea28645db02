//! Large arrays written past the caches, whatever lines they begin in.
//!
//! A block of all arrays is put together in memory that the caches hold, and copied from there, line by line.

use smallvec::smallvec;

use super::{Area, GRAIN, Kernel, Level, vectors};
use crate::moves::Move;

/// Bytes of a block.
const BLOCK: u64 = 96 << 10;

/// Arrays, made ready.
pub(crate) struct Stage {
    /// Moves blocks, as if they were rows, to where they are copied from.
    kernel: Kernel,
    /// Elements in a block.
    elements: u64,
    /// Where the moves go in the end, and from where on they are in a block.
    arrays: Vec<(Move, usize)>,
    memory: Vec<u8>,
}

impl Stage {
    /// None where moves do not each fill an array, row by row alike.
    pub fn new(list: &[Move], level: Level) -> Option<Stage> {
        let first = list.first()?;
        let is_array = |one: &Move| {
            let (row, element) = (one.steps.first(), one.steps.last());
            one.size < 64 && element.is_some_and(|step| step.0 == one.size as i64) && row == first.steps.first()
        };
        if level == Level::Scalar || list.len() < 2 || !list.iter().all(is_array) {
            return None;
        }
        let size: u64 = list.iter().map(|one| one.size).sum();
        let elements = (BLOCK / size / GRAIN).max(1) * GRAIN;
        let (mut moves, mut arrays, mut end) = (Vec::new(), Vec::new(), 0);
        for one in list {
            let step = one.steps.last()?.1;
            let steps = smallvec![(0, step * elements as i64), (one.size as i64, step)];
            moves.push(Move { to: end as i64, steps, ..one.clone() });
            arrays.push((one.clone(), end));
            end += (one.size * elements) as usize;
        }
        Some(Stage { kernel: Kernel::new(&moves, level, false), elements, arrays, memory: vec![0; end] })
    }

    /// Carries the moves out over an area. All that they touch must lie within the buffers.
    pub fn run(&mut self, area: Area, to: &mut [u8], from: &[u8]) {
        for row in 0..area.rows as i64 {
            for (block, first) in (0..).zip((0..area.elements).step_by(self.elements as usize)) {
                let elements = self.elements.min(area.elements - first);
                let shift = |one: &Move| one.steps.first().map_or((0, 0), |step| (step.0 * row, step.1 * row));
                let shift = self.arrays.first().map_or((0, 0), |(one, _)| shift(one));
                let base = (0, area.base.1 + shift.1);
                let here = Area { base, first_row: block, rows: 1, first_element: 0, elements };
                self.kernel.run(here, (1, elements.next_multiple_of(GRAIN)), &mut self.memory, from);
                for (one, start) in &self.arrays {
                    let step = one.steps.last().map_or(0, |step| step.1);
                    let next =
                        base.1 + one.from + step * (first + self.elements) as i64 + step.signum() * *start as i64;
                    let ahead = from.as_ptr().wrapping_offset(next as isize);
                    let at = (one.to + area.base.0 + shift.0) as usize + (one.size * first) as usize;
                    let length = (one.size * elements) as usize;
                    if let (Some(to), Some(bytes)) =
                        (to.get_mut(at..at + length), self.memory.get(*start..*start + length))
                    {
                        vectors::past_caches(to, bytes, ahead, step.signum() as isize * 64);
                    }
                }
            }
        }
        vectors::settle();
    }
}
