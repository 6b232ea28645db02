//! The inner loops: runs of equal moves, in the widest registers that the machine has.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod program;
mod scalar;

use crate::moves::Move;
use program::Program;
pub(crate) use scalar::copy;

/// A part of the innermost two counts: rows, and elements in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    /// What is added to each place, in the destination and in the source.
    pub base: (i64, i64),
    pub first_row: u64,
    pub rows: u64,
    /// A multiple of [`GRAIN`].
    pub first_element: u64,
    pub elements: u64,
}

/// No program has more records in two periods.
pub(crate) const GRAIN: u64 = 2 * program::WIDTH as u64;

/// Moves with two steps each, by row and by element, made ready.
pub(crate) struct Kernel {
    parts: Vec<(Option<Program>, Vec<Move>)>,
}

impl Kernel {
    /// For moves that write into gapless records, or each into a gapless array, by vectors; for others one by one.
    pub fn new(list: &[Move]) -> Kernel {
        if let Some(record) = Program::record(list) {
            return Kernel { parts: vec![(Some(record), list.to_vec())] };
        }
        let part = |one: &Move| (Program::record(std::slice::from_ref(one)), vec![one.clone()]);
        Kernel { parts: list.iter().map(part).collect() }
    }

    /// Carries them out over an area, in blocks of so many rows and elements; the latter a multiple of [`GRAIN`]. All that they
    /// touch must lie within the buffers.
    pub fn run(&self, area: Area, block: (u64, u64), to: &mut [u8], from: &[u8]) {
        let limit = |program: &Option<Program>| program.as_ref().map_or(0, |program| limit(program, area, to, from));
        let limits: Vec<u64> = self.parts.iter().map(|(program, _)| limit(program)).collect();
        for first_row in (0..area.rows).step_by(block.0.max(1) as usize) {
            let rows = block.0.max(1).min(area.rows - first_row);
            for first_element in (0..area.elements).step_by(block.1.max(GRAIN) as usize) {
                let elements = block.1.max(GRAIN).min(area.elements - first_element);
                for ((program, list), limit) in self.parts.iter().zip(&limits) {
                    let here = Area { first_row, rows, first_element, elements, ..area };
                    let done = match program {
                        Some(program) => vectors(program, here, limit.saturating_sub(first_element), to, from),
                        None => 0,
                    };
                    for one in list.iter().filter(|_| done < elements) {
                        let rest = Area { first_element: first_element + done, elements: elements - done, ..here };
                        scalar::run(one, rest, to, from);
                    }
                }
            }
        }
    }
}

/// How many elements of each row of an area can be moved in whole vectors without leaving the buffers.
#[cfg(target_arch = "x86_64")]
fn limit(program: &Program, area: Area, to: &[u8], from: &[u8]) -> u64 {
    if std::arch::is_x86_feature_detected!("avx2") { program.limit(area, to.len(), from.len()) } else { 0 }
}

#[cfg(not(target_arch = "x86_64"))]
fn limit(_: &Program, _: Area, _: &[u8], _: &[u8]) -> u64 {
    0
}

/// Carries out a program as far as whole vectors go, and at most for so many elements of each row. Returns how many that were.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the limit says what may be touched")]
fn vectors(program: &Program, area: Area, limit: u64, to: &mut [u8], from: &[u8]) -> u64 {
    let pairs = area.elements.min(limit) / program.records / 2;
    if pairs > 0 {
        // SAFETY: [`limit`] has found AVX2, and all windows and vectors up to it within the buffers.
        unsafe { avx2::run(program, area, pairs, to, from) };
    }
    pairs * 2 * program.records
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors(_: &Program, _: Area, _: u64, _: &mut [u8], _: &[u8]) -> u64 {
    0
}
