//! Synthetic data of the kinds on which encodings differ.

use crate::analyze::Elements;
use terrace_codec::Element;

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    /// Creates a generator; equal seeds give equal numbers.
    fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.bits() >> 11) % limit
    }

    /// Returns a number from 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A kind of generated data. Its number is a part of the generator's seed, so that each kind has parameters of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeKind {
    /// Random bytes.
    Noise = 0,
    /// Zeros, with few other bytes.
    Sparse = 1,
    /// A smooth field with some noise.
    FieldF32 = 2,
    /// As [`MadeKind::FieldF32`], with other parameters.
    OtherFieldF32 = 3,
    /// A smooth field with some noise.
    FieldF64 = 4,
    /// As [`MadeKind::FieldF64`], with other parameters.
    OtherFieldF64 = 5,
    /// Normally distributed numbers.
    NormalF64 = 6,
    /// Normally distributed numbers.
    NormalF32 = 7,
    /// Numbers with two decimal places.
    Decimals = 8,
    /// Times with irregular distances.
    Times = 9,
    /// Evenly distributed integers below a limit.
    Integers = 10,
    /// Waiting times: sums of two exponentially distributed numbers.
    WaitingTimes = 11,
    /// A smooth field as short integers.
    FieldI16 = 12,
    /// Records of particles: positions in a cell, the cell, momenta, a weight.
    Particles = 13,
    /// A table as text.
    Csv = 14,
    /// Objects in JSON.
    Json = 15,
    /// Pages of a heap: zeros, pointers, floats, small numbers.
    Heap = 16,
    /// Words of an artificial language.
    Words = 17,
    /// Integers in ascending order.
    Counter = 18,
    /// A container: variables of alternating types.
    Container = 19,
}

impl MadeKind {
    /// All kinds, in the order of their numbers.
    pub const ALL_KINDS: [MadeKind; 20] = [
        MadeKind::Noise,
        MadeKind::Sparse,
        MadeKind::FieldF32,
        MadeKind::OtherFieldF32,
        MadeKind::FieldF64,
        MadeKind::OtherFieldF64,
        MadeKind::NormalF64,
        MadeKind::NormalF32,
        MadeKind::Decimals,
        MadeKind::Times,
        MadeKind::Integers,
        MadeKind::WaitingTimes,
        MadeKind::FieldI16,
        MadeKind::Particles,
        MadeKind::Csv,
        MadeKind::Json,
        MadeKind::Heap,
        MadeKind::Words,
        MadeKind::Counter,
        MadeKind::Container,
    ];

    /// The type of the elements, if they all have one.
    fn element(self) -> Option<Element> {
        match self {
            MadeKind::FieldF32 | MadeKind::OtherFieldF32 | MadeKind::NormalF32 => Some(Element::F32),
            MadeKind::FieldF64 | MadeKind::OtherFieldF64 => Some(Element::F64),
            MadeKind::NormalF64 | MadeKind::Decimals | MadeKind::WaitingTimes => Some(Element::F64),
            MadeKind::Times => Some(Element::I64),
            MadeKind::Integers | MadeKind::Counter => Some(Element::I32),
            MadeKind::FieldI16 => Some(Element::I16),
            MadeKind::Particles => Some(Element::Record32),
            MadeKind::Noise | MadeKind::Sparse | MadeKind::Csv | MadeKind::Json => None,
            MadeKind::Heap | MadeKind::Words | MadeKind::Container => None,
        }
    }
}

/// Generates bytes of one kind, and the type of their elements. The parameters of a kind depend on the seed.
pub fn generate(kind: MadeKind, length: usize, seed: u64) -> (Vec<u8>, Option<Elements>) {
    let mut generator = Generator::new(kind, seed);
    let mut out = Vec::with_capacity(length + 64);
    let mut number = 0;
    while out.len() < length {
        generator.append_piece(kind, number, &mut out);
        number += 1;
    }
    out.truncate(length);
    (out, kind.element().map(Elements::of))
}

/// The parameters of one kind and seed.
struct Generator {
    random: Random,
    /// The noise of a field, as a share of its amplitude.
    noise: f64,
    /// The length of a field's row.
    row: u64,
    scale: f64,
    /// The limit of integers.
    range: u64,
    /// The last of [`MadeKind::Times`], in microseconds since 1970.
    time: i64,
}

impl Generator {
    fn new(kind: MadeKind, seed: u64) -> Generator {
        let mut random = Random::new(seed * MadeKind::ALL_KINDS.len() as u64 + kind as u64);
        let noise = [0.0, 1e-6, 1e-4, 1e-2][random.below(4) as usize];
        let row = 100 + random.below(900);
        let scale = 10f64.powf(random.unit() * 6.0 - 3.0);
        let range = 4 << random.below(10);
        Generator { random, noise, row, scale, range, time: 1_700_000_000_000_000 }
    }

    /// Returns the value of a smooth field with noise at a place.
    fn field(&mut self, place: u64) -> f64 {
        let (x, y) = ((place % self.row) as f64 / self.row as f64, (place / self.row) as f64 / self.row as f64);
        let smooth = (7.0 * x).sin() * (3.0 * y + 1.0).cos() + 0.3 * (20.0 * x + 9.0 * y).sin();
        self.scale * (smooth + self.noise * self.random.normal() + 2.0)
    }

    /// Appends the piece with this number: an element, a record, or some of them.
    fn append_piece(&mut self, kind: MadeKind, number: u64, out: &mut Vec<u8>) {
        let i = number;
        match kind {
            MadeKind::Noise => out.push(self.random.bits() as u8),
            MadeKind::Sparse => out.extend([if self.random.below(50) == 0 { self.random.bits() as u8 } else { 0 }; 16]),
            MadeKind::FieldF32 | MadeKind::OtherFieldF32 => out.extend((self.field(i) as f32).to_le_bytes()),
            MadeKind::FieldF64 | MadeKind::OtherFieldF64 => out.extend(self.field(i).to_le_bytes()),
            MadeKind::NormalF64 => out.extend((self.scale * self.random.normal()).to_le_bytes()),
            MadeKind::NormalF32 => out.extend(((self.scale * self.random.normal()) as f32).to_le_bytes()),
            MadeKind::Decimals => {
                out.extend((((20.0 + 8.0 * self.random.normal()) * 100.0).round() / 100.0).to_le_bytes())
            }
            MadeKind::Times => {
                self.time += 1_000_000 + self.random.below(self.range) as i64;
                out.extend(self.time.to_le_bytes());
            }
            MadeKind::Integers => out.extend((self.random.below(self.range) as i32).to_le_bytes()),
            MadeKind::WaitingTimes => {
                out.extend(((-self.random.unit().ln() - self.random.unit().ln()) * 1000.0).to_le_bytes())
            }
            MadeKind::FieldI16 => out.extend((((self.field(i) / self.scale + 2.0) * 500.0) as i16).to_le_bytes()),
            MadeKind::Particles => self.append_particle(i, out),
            MadeKind::Csv => {
                let temperature = 20.0 + 3.0 * self.random.normal();
                out.extend(format!("{},{temperature:.2},{:.4}\n", 1000 + i, self.field(i)).bytes())
            }
            MadeKind::Json => {
                let (id, kind) =
                    (self.random.below(100_000), ["quake", "blast", "other"][self.random.below(3) as usize]);
                let size = 4.0 * self.random.unit();
                out.extend(format!("{{\"id\":{id},\"kind\":\"{kind}\",\"size\":{size:.1}}},").bytes());
            }
            MadeKind::Heap => self.append_heap_page(out),
            MadeKind::Words => self.append_word(out),
            MadeKind::Counter => (0..64).for_each(|n| out.extend(((i * 64 + n) as i32).to_le_bytes())),
            MadeKind::Container => match i / 64 % 3 {
                0 => (0..256).for_each(|n| out.extend((self.field(i * 256 + n) as f32).to_le_bytes())),
                1 => (0..128).for_each(|n| out.extend(((i * 128 + n) as f64 * 0.25).to_le_bytes())),
                _ => (0..512).for_each(|n| out.extend(((n % 300) as i16).to_le_bytes())),
            },
        }
    }

    fn append_particle(&mut self, number: u64, out: &mut Vec<u8>) {
        let random = &mut self.random;
        for _ in 0..3 {
            out.extend(((2.0 * random.unit() - 1.0) as f32).to_le_bytes());
        }
        out.extend((random.below(4000) as i32 + number as i32 / 60).to_le_bytes());
        for _ in 0..3 {
            out.extend(((0.1 * random.normal()) as f32).to_le_bytes());
        }
        out.extend(1.5f32.to_le_bytes());
    }

    fn append_heap_page(&mut self, out: &mut Vec<u8>) {
        match self.random.below(4) {
            0 => out.extend([0; 1024]),
            1 => {
                (0..128).for_each(|_| out.extend((0x7f3a_0000_0000 + (self.random.below(1 << 22) << 4)).to_le_bytes()))
            }
            2 => (0..128).for_each(|n| out.extend(self.field(n).to_le_bytes())),
            _ => (0..256).for_each(|n| out.extend((n + self.random.below(3) as i32).to_le_bytes())),
        }
    }

    /// Appends a word and what separates it from the next one. Short words are frequent.
    fn append_word(&mut self, out: &mut Vec<u8>) {
        let word = (self.random.unit() * self.random.unit() * 2000.0) as u64;
        let mut letters = Random::new(word + 99);
        let count = 2 + u64::from(word.checked_ilog2().unwrap_or(0)) / 2 + letters.below(3);
        (0..count)
            .for_each(|_| out.push(b"etaoinshrdlucmfwypvbgkjqxz"[(letters.unit() * letters.unit() * 26.0) as usize]));
        out.extend([&b" "[..], b" ", b" ", b", ", b".\n"][self.random.below(5) as usize]);
    }
}
