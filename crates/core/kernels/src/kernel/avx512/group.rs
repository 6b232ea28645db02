//! Groups of vectors that are assembled from the same registers.
//!
//! If many registers are loaded, several at a time are first packed into one, which then holds the needed bytes of all
//! of them.

use super::place::{Place, VECTOR_BYTES};
use super::source::{Source, Stretches};

/// The maximum number of registers that are loaded at once. More cost as much as single moves.
const MOST_INPUTS: usize = 16;

/// Registers that are loaded together, and the vectors assembled from them. They advance equally from record to record.
#[derive(Debug)]
pub(in crate::kernel) struct Group {
    pub shape: Shape,
    /// The addresses of the registers. The last one repeats to fill the last pack.
    pub inputs: Vec<Place>,
    /// The addresses of the vectors.
    pub outputs: Vec<Place>,
    /// For each input, the selection of the bytes that are packed.
    pub packing: Vec<Pick>,
    /// For each output and each pack, the selection of the bytes that are written.
    pub picks: Vec<Pick>,
}

/// The number of registers that are loaded, and of vectors that are written.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Shape {
    pub packs: usize,
    /// The number of registers in a pack.
    pub size: usize,
    /// The maximum number of vectors, so that all operands fit into registers.
    pub most: usize,
}

/// One step of a chain of selections. Each index below 64 selects a byte of the result so far; each index from 64 on
/// selects a byte of the next register. The step of the second register selects from the first two at once; the first
/// one has a step of its own only if it is the only one.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(in crate::kernel) struct Pick(pub [u8; VECTOR_BYTES]);

/// A vector that will be written.
pub(super) struct Vector {
    place: Place,
    sources: [Source; VECTOR_BYTES],
    /// The set of the registers that it is assembled from, as bits.
    registers: u64,
}

impl Vector {
    pub fn new(place: Place, sources: [Source; VECTOR_BYTES]) -> Vector {
        let registers = sources.iter().fold(0, |registers, source| registers | 1 << source.register);
        Vector { place, sources, registers }
    }
}

impl Shape {
    fn of(inputs: usize) -> Option<Shape> {
        let (packs, size, most) = match inputs {
            1..=5 => (inputs, 1, inputs),
            6 => (3, 2, 3),
            7..=MOST_INPUTS => (4, inputs.div_ceil(4), 4),
            _ => return None,
        };
        Some(Shape { packs, size, most })
    }
}

/// Puts vectors into groups. Returns `None` if a vector needs too many registers.
pub(super) fn groups(vectors: &[Vector], stretches: &Stretches) -> Option<Vec<Group>> {
    let mut left: Vec<&Vector> = vectors.iter().collect();
    let mut groups = Vec::new();
    while let Some(&first) = left.first() {
        let shape = Shape::of(first.registers.count_ones() as usize)?;
        let inputs = stretches.places(first.registers);
        let alike = |other: &&Vector| other.registers == first.registers && other.place.step == first.place.step;
        let all: Vec<&Vector> = left.iter().copied().filter(alike).collect();
        // Neighbours may need the same part of a register, so that every other vector fits better. A single vector
        // always fits.
        let choices = [1, 2].map(|apart| all.iter().copied().step_by(apart).take(shape.most).collect::<Vec<_>>());
        let packed = (1..=shape.most).rev().flat_map(|count| choices.iter().map(move |some| some.get(..count)));
        let (some, group) = packed.flatten().find_map(|some| Some((some, Group::new(shape, &inputs, some)?)))?;
        left.retain(|vector| !some.iter().any(|one| std::ptr::eq(*one, *vector)));
        groups.push(group);
    }
    Some(groups)
}

impl Group {
    /// Returns `None` if the bytes that the vectors need from a pack do not fit into one register.
    fn new(shape: Shape, inputs: &[Place], vectors: &[&Vector]) -> Option<Group> {
        let stay = Pick(std::array::from_fn(|byte| byte as u8));
        let mut inputs = inputs.to_vec();
        inputs.resize(shape.packs * shape.size, *inputs.last()?);
        let mut packing = vec![stay.clone(); inputs.len()];
        let mut picks = vec![stay; vectors.len() * shape.packs];
        let steps = steps(shape, vectors.first()?.registers);
        let mut packed = [[0u8; VECTOR_BYTES]; MOST_INPUTS];
        let mut lengths = [0u8; MOST_INPUTS];
        for (vector, picks) in vectors.iter().zip(picks.chunks_mut(shape.packs)) {
            for (byte, source) in vector.sources.iter().enumerate() {
                let step = steps.get(usize::from(source.register))?;
                let mut place = source.byte;
                if shape.size > 1 {
                    let known = packed.get_mut(step.input)?.get_mut(usize::from(place))?;
                    if *known == 0 {
                        let length = lengths.get_mut(step.pack)?;
                        packing
                            .get_mut(step.pack_step)?
                            .0
                            .get_mut(usize::from(*length))
                            .map(|to| *to = place + step.pack_from)?;
                        *length += 1;
                        *known = *length;
                    }
                    place = *known - 1;
                }
                *picks.get_mut(step.step)?.0.get_mut(byte)? = place + step.from;
            }
        }
        Some(Group { shape, inputs, outputs: vectors.iter().map(|vector| vector.place).collect(), packing, picks })
    }
}

/// The steps of chains that select the bytes of an input, and the first index of the input in them.
#[derive(Clone, Copy, Default)]
struct Step {
    input: usize,
    pack: usize,
    /// The index among all packing steps.
    pack_step: usize,
    pack_from: u8,
    /// The index among the steps that write a vector.
    step: usize,
    from: u8,
}

/// Returns the steps of each register that is used.
fn steps(shape: Shape, registers: u64) -> [Step; VECTOR_BYTES] {
    // A chain begins with its first two registers.
    let chain = |at: usize, length: usize| match at {
        0 => (usize::from(length > 1), 0),
        _ => (at, VECTOR_BYTES as u8),
    };
    let mut steps = [Step::default(); VECTOR_BYTES];
    let used = steps.iter_mut().enumerate().filter(|(register, _)| registers >> register & 1 == 1);
    for (input, (_, slot)) in used.enumerate() {
        let pack = input / shape.size;
        let (within, pack_from) = chain(input % shape.size, shape.size);
        let (step, from) = chain(pack, shape.packs);
        *slot = Step { input, pack, pack_step: pack * shape.size + within, pack_from, step, from };
    }
    steps
}
