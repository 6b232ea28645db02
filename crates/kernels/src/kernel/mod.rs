//! The inner loops: runs of equal moves, in the widest registers that the machine has.

#[cfg(target_arch = "x86_64")]
mod across;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod program;
mod scalar;
mod square;
#[cfg(target_arch = "x86_64")]
mod turn;

pub(crate) use scalar::copy;

use crate::moves::Move;
use program::Program;
use square::Square;

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
    parts: Vec<(Vectors, Vec<Move>)>,
}

/// How moves are carried out in vectors.
enum Vectors {
    /// Not at all.
    None,
    Program(Program),
    Square(Square),
}

impl Kernel {
    /// Makes moves ready: in squares where they fall into some, into gapless records and arrays by programs, others one by one.
    pub fn new(list: &[Move]) -> Kernel {
        let (squares, rest) = if list.len() > 1 { square::split(list) } else { (Vec::new(), list.to_vec()) };
        // A record that squares do not fill is better put together at once.
        let scatters = squares.iter().any(|(square, _)| !square.gather);
        if (squares.is_empty() || (scatters && !rest.is_empty()))
            && let Some(record) = Program::record(list)
        {
            return Kernel { parts: vec![(Vectors::Program(record), list.to_vec())] };
        }
        let alone = |one: Move| match Program::record(std::slice::from_ref(&one)) {
            Some(program) => (Vectors::Program(program), vec![one]),
            None => (Vectors::None, vec![one]),
        };
        let squares = squares.into_iter().map(|(square, moves)| (Vectors::Square(square), moves));
        Kernel { parts: squares.chain(rest.into_iter().map(alone)).collect() }
    }

    /// Carries them out over an area, in blocks of so many rows and elements; the latter a multiple of [`GRAIN`]. All that they
    /// touch must lie within the buffers.
    pub fn run(&self, area: Area, block: (u64, u64), to: &mut [u8], from: &[u8]) {
        let limits: Vec<u64> = self.parts.iter().map(|(vectors, _)| limit(vectors, area, to, from)).collect();
        for first_row in (0..area.rows).step_by(block.0.max(1) as usize) {
            let rows = block.0.max(1).min(area.rows - first_row);
            for first_element in (0..area.elements).step_by(block.1.max(GRAIN) as usize) {
                let elements = block.1.max(GRAIN).min(area.elements - first_element);
                for ((vectors, list), limit) in self.parts.iter().zip(&limits) {
                    let here = Area { first_row, rows, first_element, elements, ..area };
                    let done = run(vectors, here, limit.saturating_sub(first_element), to, from);
                    for one in list.iter().filter(|_| done < elements) {
                        let rest = Area { first_element: first_element + done, elements: elements - done, ..here };
                        scalar::run(one, rest, to, from);
                    }
                }
            }
        }
    }
}

/// Turns a matrix over, where that is all that a move does. False, and nothing is done, where it is not. All of the area must
/// lie within the buffers.
#[cfg(target_arch = "x86_64")]
pub(crate) fn turn_over(list: &[Move], area: Area, to: &mut [u8], from: &[u8]) -> bool {
    across::Across::new(list).map(|across| across.run(area, to, from)).is_some()
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn turn_over(_: &[Move], _: Area, _: &mut [u8], _: &[u8]) -> bool {
    false
}

/// How many elements of each row of an area can be moved in whole vectors without leaving the buffers.
#[cfg(target_arch = "x86_64")]
fn limit(vectors: &Vectors, area: Area, to: &[u8], from: &[u8]) -> u64 {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return 0;
    }
    match vectors {
        Vectors::None => 0,
        Vectors::Program(program) => program.limit(area, to.len(), from.len()),
        Vectors::Square(square) => square.limit(area, to.len(), from.len()),
    }
}

/// Moves whole vectors, at most for so many elements of each row. Returns for how many that was.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the limit says what may be touched")]
fn run(vectors: &Vectors, area: Area, limit: u64, to: &mut [u8], from: &[u8]) -> u64 {
    let grain = match vectors {
        Vectors::None => return 0,
        Vectors::Program(program) => 2 * program.records,
        Vectors::Square(square) => square.records(),
    };
    let times = area.elements.min(limit) / grain;
    if times > 0 {
        // SAFETY: [`limit`] has found AVX2, and all that is touched up to it within the buffers.
        unsafe {
            match vectors {
                Vectors::Program(program) => avx2::run(program, area, times, to, from),
                Vectors::Square(square) => turn::run(square, area, times, to, from),
                Vectors::None => {}
            }
        }
    }
    times * grain
}

#[cfg(not(target_arch = "x86_64"))]
fn limit(_: &Vectors, _: Area, _: &[u8], _: &[u8]) -> u64 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn run(_: &Vectors, _: Area, _: u64, _: &mut [u8], _: &[u8]) -> u64 {
    0
}
