//! Arrangements of an array's elements.

use crate::model::{Arrangement, Misfit};

/// A digit of an index: it counts from 0 to `count - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// The weight of one step in the index.
    pub weight: u64,
    /// The number of values.
    pub count: u64,
    /// The distance of one step in bytes.
    pub stride: u64,
}

/// Multiplies; a product that no file's length can reach is an error.
pub(super) fn times(a: u64, b: u64) -> Result<u64, Misfit> {
    a.checked_mul(b).filter(|product| *product <= i64::MAX as u64).ok_or(Misfit::TooLarge)
}

/// Arranges elements of `size` bytes in an array of these lengths, the fastest dimension first. Returns the digits of
/// each dimension, and the size of all of them. Positions of a tile or a curve outside the array are padding.
pub(super) fn arrange(
    lengths: &[u64],
    size: u64,
    arrangement: &Arrangement,
    reversed: bool,
) -> Result<(Vec<Vec<Digit>>, u64), Misfit> {
    match arrangement {
        Arrangement::Tiled(shape) if shape.len() == lengths.len() => {
            // The shape is in the order of the declaration.
            let shape: Vec<u64> = if reversed { shape.iter().rev().copied().collect() } else { shape.clone() };
            tiled(lengths, size, &shape)
        }
        Arrangement::Tiled(shape) if shape.len() == 1 => {
            tiled(lengths, size, &vec![shape.first().copied().unwrap_or(1); lengths.len()])
        }
        Arrangement::ZOrder if lengths.len() > 1 => curve(lengths, size),
        _ => {
            let mut digits = Vec::new();
            let mut stride = size;
            for &count in lengths {
                digits.push(vec![Digit { weight: 1, count, stride }]);
                stride = times(stride, count)?;
            }
            Ok((digits, stride))
        }
    }
}

fn tiled(lengths: &[u64], size: u64, shape: &[u64]) -> Result<(Vec<Vec<Digit>>, u64), Misfit> {
    let mut stride = size;
    let mut within = Vec::new();
    for &count in shape {
        within.push(Digit { weight: 1, count, stride });
        stride = times(stride, count)?;
    }
    let mut digits = Vec::new();
    for (&length, inner) in lengths.iter().zip(within) {
        let count = length.div_ceil(inner.count);
        digits.push(vec![Digit { weight: inner.count, count, stride }, inner]);
        stride = times(stride, count)?;
    }
    Ok((digits, stride))
}

/// Arranges elements along the curve that takes one bit of each index in turn, lowest bits first. Lengths are rounded
/// up to powers of two.
fn curve(lengths: &[u64], size: u64) -> Result<(Vec<Vec<Digit>>, u64), Misfit> {
    let bits: Vec<u32> = lengths.iter().map(|&l| if l < 2 { 0 } else { u64::BITS - (l - 1).leading_zeros() }).collect();
    let mut digits = vec![Vec::new(); lengths.len()];
    let mut stride = size;
    for bit in 0..bits.iter().copied().max().unwrap_or(0) {
        for (own, digits) in bits.iter().zip(&mut digits) {
            if bit < *own {
                digits.insert(0, Digit { weight: 1 << bit, count: 2, stride });
                stride = times(stride, 2)?;
            }
        }
    }
    // An empty array takes no bytes, regardless of its other lengths.
    let empty = lengths.contains(&0);
    Ok((digits, if empty { 0 } else { stride }))
}
