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

/// The number of kinds.
pub const KIND_COUNT: u64 = 20;

/// Generates bytes of one kind, and the type of their elements. The parameters of a kind depend on the seed.
pub fn made(kind: u64, length: usize, seed: u64) -> (Vec<u8>, Option<Elements>) {
    let mut r = Random::new(seed * KIND_COUNT + kind);
    let mut out = Vec::with_capacity(length + 64);
    let noise = [0.0, 1e-6, 1e-4, 1e-2][r.below(4) as usize];
    let row = 100 + r.below(900);
    let scale = 10f64.powf(r.unit() * 6.0 - 3.0);
    let range = 4 << r.below(10);
    let field = |i: u64, r: &mut Random| {
        let (x, y) = ((i % row) as f64 / row as f64, (i / row) as f64 / row as f64);
        scale * ((7.0 * x).sin() * (3.0 * y + 1.0).cos() + 0.3 * (20.0 * x + 9.0 * y).sin() + noise * r.normal() + 2.0)
    };
    let (mut i, mut walk) = (0u64, 1_700_000_000_000_000i64);
    while out.len() < length {
        match kind {
            0 => out.push(r.bits() as u8),
            1 => out.extend([if r.below(50) == 0 { r.bits() as u8 } else { 0 }; 16]),
            2 | 3 => out.extend((field(i, &mut r) as f32).to_le_bytes()),
            4 | 5 => out.extend(field(i, &mut r).to_le_bytes()),
            6 => out.extend((scale * r.normal()).to_le_bytes()),
            7 => out.extend(((scale * r.normal()) as f32).to_le_bytes()),
            8 => out.extend((((20.0 + 8.0 * r.normal()) * 100.0).round() / 100.0).to_le_bytes()),
            9 => {
                walk += 1_000_000 + r.below(range) as i64;
                out.extend(walk.to_le_bytes());
            }
            10 => out.extend((r.below(range) as i32).to_le_bytes()),
            11 => out.extend(((-r.unit().ln() - r.unit().ln()) * 1000.0).to_le_bytes().map(|b| b)),
            12 => out.extend((((field(i, &mut r) / scale + 2.0) * 500.0) as i16).to_le_bytes()),
            13 => {
                // Particles: positions in a cell, the cell, momenta, a weight.
                for _ in 0..3 {
                    out.extend(((2.0 * r.unit() - 1.0) as f32).to_le_bytes());
                }
                out.extend((r.below(4000) as i32 + i as i32 / 60).to_le_bytes());
                for _ in 0..3 {
                    out.extend(((0.1 * r.normal()) as f32).to_le_bytes());
                }
                out.extend(1.5f32.to_le_bytes());
            }
            14 => out.extend(format!("{},{:.2},{:.4}\n", 1000 + i, 20.0 + 3.0 * r.normal(), field(i, &mut r)).bytes()),
            15 => {
                let (id, kind) = (r.below(100_000), ["quake", "blast", "other"][r.below(3) as usize]);
                out.extend(format!("{{\"id\":{id},\"kind\":\"{kind}\",\"size\":{:.1}}},", 4.0 * r.unit()).bytes());
            }
            16 => {
                // A page of a heap: zeros, pointers, floats, small numbers.
                match r.below(4) {
                    0 => out.extend([0; 1024]),
                    1 => (0..128).for_each(|_| out.extend((0x7f3a_0000_0000 + (r.below(1 << 22) << 4)).to_le_bytes())),
                    2 => (0..128).for_each(|n| out.extend(field(n, &mut r).to_le_bytes())),
                    _ => (0..256).for_each(|n| out.extend((n + r.below(3) as i32).to_le_bytes())),
                }
            }
            17 => {
                // Words of an artificial language; short words are frequent.
                let word = (r.unit() * r.unit() * 2000.0) as u64;
                let mut letters = Random::new(word + 99);
                let count = 2 + word.ilog2_or_zero() / 2 + letters.below(3);
                (0..count).for_each(|_| {
                    out.push(b"etaoinshrdlucmfwypvbgkjqxz"[(letters.unit() * letters.unit() * 26.0) as usize])
                });
                out.extend([&b" "[..], b" ", b" ", b", ", b".\n"][r.below(5) as usize]);
            }
            18 => (0..64).for_each(|n| out.extend(((i * 64 + n) as i32).to_le_bytes())),
            _ => {
                // A container: variables of alternating types.
                match i / 64 % 3 {
                    0 => (0..256).for_each(|n| out.extend((field(i * 256 + n, &mut r) as f32).to_le_bytes())),
                    1 => (0..128).for_each(|n| out.extend(((i * 128 + n) as f64 * 0.25).to_le_bytes())),
                    _ => (0..512).for_each(|n| out.extend(((n % 300) as i16).to_le_bytes())),
                }
            }
        }
        i += 1;
    }
    out.truncate(length);
    let element = match kind {
        2 | 3 | 7 => Some(Element::F32),
        4..=6 | 8 | 11 => Some(Element::F64),
        9 => Some(Element::I64),
        10 | 18 => Some(Element::I32),
        12 => Some(Element::I16),
        13 => Some(Element::Record32),
        _ => None,
    };
    (out, element.map(Elements::of))
}

trait Length {
    fn ilog2_or_zero(self) -> u64;
}

impl Length for u64 {
    fn ilog2_or_zero(self) -> u64 {
        self.checked_ilog2().unwrap_or(0).into()
    }
}
