//! Vectors that are made of the same registers.
//!
//! Where many registers are loaded, some at a time are first packed into one: what the vectors need of them, side by side.

use super::program::{Place, WIDTH};
use super::source::{Source, Stretches};

/// As many registers are loaded at once. More cost as much as single moves.
const MOST_INPUTS: usize = 16;

/// Parts that are loaded together, and the vectors made from them. They move equally from record to record.
#[derive(Debug)]
pub(in crate::kernel) struct Group {
    pub shape: Shape,
    /// Where the registers are loaded from; where they fill no last pack, the last repeats.
    pub inputs: Vec<Place>,
    /// Where the vectors are written to.
    pub outputs: Vec<Place>,
    /// For each input: what of it is packed.
    pub packing: Vec<Pick>,
    /// For each output, and each pack: what of it is written.
    pub picks: Vec<Pick>,
}

/// How many registers are loaded, and how many vectors written.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Shape {
    pub packs: usize,
    /// Registers in a pack.
    pub size: usize,
    /// As many vectors are written: all that they take shall be in registers.
    pub most: usize,
}

/// One step of a chain: for each byte, which it is of what was picked up to then, or, from 64 on, of the next register. The first
/// two registers are picked from at once, by the step of the second; the first has one of its own only where it is alone.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(in crate::kernel) struct Pick(pub [u8; WIDTH]);

/// A vector to be written.
pub(super) struct Vector {
    place: Place,
    sources: [Source; WIDTH],
    /// The registers that it is made of, as bits.
    registers: u64,
}

impl Vector {
    pub fn new(place: Place, sources: [Source; WIDTH]) -> Vector {
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

/// Puts vectors into groups; none where one needs too many registers.
pub(super) fn groups(vectors: &[Vector], stretches: &Stretches) -> Option<Vec<Group>> {
    let mut left: Vec<&Vector> = vectors.iter().collect();
    let mut groups = Vec::new();
    while let Some(&first) = left.first() {
        let shape = Shape::of(first.registers.count_ones() as usize)?;
        let inputs = stretches.places(first.registers);
        let alike = |other: &&Vector| other.registers == first.registers && other.place.step == first.place.step;
        let all: Vec<&Vector> = left.iter().copied().filter(alike).collect();
        // Neighbours may need the same part of a register, so that every other one fits better. A single one always fits.
        let choices = [1, 2].map(|apart| all.iter().copied().step_by(apart).take(shape.most).collect::<Vec<_>>());
        let packed = (1..=shape.most).rev().flat_map(|count| choices.iter().map(move |some| some.get(..count)));
        let (some, group) = packed.flatten().find_map(|some| Some((some, Group::new(shape, &inputs, some)?)))?;
        left.retain(|vector| !some.iter().any(|one| std::ptr::eq(*one, *vector)));
        groups.push(group);
    }
    Some(groups)
}

impl Group {
    /// None where not all that the vectors need of a pack fits into a register.
    fn new(shape: Shape, inputs: &[Place], vectors: &[&Vector]) -> Option<Group> {
        let stay = Pick(std::array::from_fn(|byte| byte as u8));
        let mut inputs = inputs.to_vec();
        inputs.resize(shape.packs * shape.size, *inputs.last()?);
        let mut packing = vec![stay.clone(); inputs.len()];
        let mut picks = vec![stay; vectors.len() * shape.packs];
        let steps = steps(shape, vectors.first()?.registers);
        let mut packed = [[0u8; WIDTH]; MOST_INPUTS];
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

/// By which steps of chains the bytes of an input are picked, and from where these count them.
#[derive(Clone, Copy, Default)]
struct Step {
    input: usize,
    pack: usize,
    /// Among all steps that pack.
    pack_step: usize,
    pack_from: u8,
    /// Among those that write a vector.
    step: usize,
    from: u8,
}

/// For each register that is used, its steps.
fn steps(shape: Shape, registers: u64) -> [Step; WIDTH] {
    // A chain begins with its first two registers.
    let chain = |at: usize, length: usize| match at {
        0 => (usize::from(length > 1), 0),
        _ => (at, WIDTH as u8),
    };
    let mut steps = [Step::default(); WIDTH];
    let used = steps.iter_mut().enumerate().filter(|(register, _)| registers >> register & 1 == 1);
    for (input, (_, slot)) in used.enumerate() {
        let pack = input / shape.size;
        let (within, pack_from) = chain(input % shape.size, shape.size);
        let (step, from) = chain(pack, shape.packs);
        *slot = Step { input, pack, pack_step: pack * shape.size + within, pack_from, step, from };
    }
    steps
}
