//! Single moves of any size.

use super::Area;
use crate::moves::Move;

/// Executes one move for an area.
pub(super) fn run(one: &Move, area: Area, to: &mut [u8], from: &[u8]) {
    let row = one.steps.first().copied().unwrap_or((0, 0));
    let step = one.steps.last().copied().unwrap_or((0, 0));
    let first = area.first_element as i64;
    for r in area.first_row as i64..(area.first_row + area.rows) as i64 {
        let start = one.to + area.base.0 + row.0 * r + step.0 * first;
        let source = one.from + area.base.1 + row.1 * r + step.1 * first;
        match (one.size, one.unit) {
            (1, _) => elements::<1>(start, source, step, area.elements, to, from),
            (2, 1) => elements::<2>(start, source, step, area.elements, to, from),
            (4, 1) => elements::<4>(start, source, step, area.elements, to, from),
            (8, 1) => elements::<8>(start, source, step, area.elements, to, from),
            (12, 1) => elements::<12>(start, source, step, area.elements, to, from),
            (16, 1) => elements::<16>(start, source, step, area.elements, to, from),
            _ => {
                for e in 0..area.elements as i64 {
                    copy(start + step.0 * e, source + step.1 * e, one.size, one.unit, to, from);
                }
            }
        }
    }
}

/// Moves elements of a size that the compiler knows.
fn elements<const SIZE: usize>(
    to_start: i64,
    from_start: i64,
    step: (i64, i64),
    count: u64,
    to: &mut [u8],
    from: &[u8],
) {
    let (mut at, mut source) = (to_start, from_start);
    for _ in 0..count {
        if let (Some(to), Some(from)) =
            (to.get_mut(at as usize..at as usize + SIZE), from.get(source as usize..source as usize + SIZE))
        {
            to.copy_from_slice(from);
        }
        at += step.0;
        source += step.1;
    }
}

/// Copies a run of bytes and swaps the bytes of each unit.
pub(crate) fn copy(at: i64, source: i64, size: u64, unit: u64, to: &mut [u8], from: &[u8]) {
    let (at, source, size) = (at as usize, source as usize, size as usize);
    let (Some(to), Some(from)) = (to.get_mut(at..at + size), from.get(source..source + size)) else { return };
    to.copy_from_slice(from);
    swap_in(to, unit);
}

/// Swaps the bytes of each unit of a buffer.
fn swap_in(bytes: &mut [u8], unit: u64) {
    fn all<const N: usize>(bytes: &mut [u8]) {
        for unit in bytes.as_chunks_mut::<N>().0 {
            unit.reverse();
        }
    }
    match unit {
        0 | 1 => {}
        2 => all::<2>(bytes),
        4 => all::<4>(bytes),
        8 => all::<8>(bytes),
        unit => bytes.chunks_exact_mut(unit as usize).for_each(<[u8]>::reverse),
    }
}
