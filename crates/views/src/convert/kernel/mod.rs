//! The inner loops: runs of equal moves, in the widest registers that the machine has.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod program;
mod scalar;

use super::moves::Move;
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

/// No program's period has more records.
pub(crate) const GRAIN: u64 = program::WIDTH as u64;

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

    /// Carries them out over an area. All that they touch must lie within the buffers.
    pub fn run(&self, area: Area, to: &mut [u8], from: &[u8]) {
        for (program, list) in &self.parts {
            let done = program.as_ref().map_or(0, |program| vectors(program, area, to, from));
            for one in list.iter().filter(|_| done < area.elements) {
                let rest = Area { first_element: area.first_element + done, elements: area.elements - done, ..area };
                scalar::run(one, rest, to, from);
            }
        }
    }
}

/// Carries out a program as far as whole vectors go. Returns how many elements of each row that were.
#[cfg(target_arch = "x86_64")]
fn vectors(program: &Program, area: Area, to: &mut [u8], from: &[u8]) -> u64 {
    avx2::run(program, area, to, from)
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors(_: &Program, _: Area, _: &mut [u8], _: &[u8]) -> u64 {
    0
}
