//! One side of a conversion: boxes of elements whose indices and offsets are sums over digits.

use crate::layout::{Digit, Part, Placed, Walk, nests};
use crate::model::Misfit;

/// Elements of a leaf on one side.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The offset of the first element.
    pub offset: i64,
    /// The dimensions of the leaf.
    pub dimensions: Vec<Dimension>,
    /// Repetitions: count and stride.
    pub repeats: Vec<(u64, i64)>,
}

/// The indices of one dimension: `start` and the sum of digit times weight.
#[derive(Clone, Debug)]
pub(crate) struct Dimension {
    pub start: i128,
    /// The digits, largest weight first. Each weight is larger than the sum of the digits after it can be.
    pub digits: Vec<Part>,
}

/// Maximum number of boxes of a leaf. No useful layout has more, and the limit bounds memory and time.
pub(crate) const MAX_PIECES: usize = 4096;

/// Returns the boxes of a placed leaf, which must be regular. With `all`, every repetition of an element is included,
/// otherwise one.
pub(crate) fn pieces(placed: &Placed, all: bool) -> Result<Vec<Piece>, Misfit> {
    if placed.count() == 0 {
        return Ok(Vec::new());
    }
    let offset = i64::try_from(placed.offset).map_err(|_| Misfit::TooLarge)?;
    let dimensions = placed.index.iter().map(|affine| Dimension { start: affine.constant.into(), digits: Vec::new() });
    let mut pieces = vec![Piece { offset, dimensions: dimensions.collect(), repeats: Vec::new() }];
    for walk in &placed.loops {
        let runs = runs(walk);
        let moved = placed.index.iter().enumerate().find_map(|(dimension, affine)| {
            affine
                .terms
                .iter()
                .find(|(index, _)| *index == walk.number)
                .map(|(_, coefficient)| (dimension, *coefficient))
        });
        if moved.is_none() && !all {
            continue;
        }
        if pieces.len() * runs.len() > MAX_PIECES {
            return Err(Misfit::TooComplex);
        }
        let mut more = Vec::new();
        for piece in &pieces {
            for run in &runs {
                let mut piece = piece.clone();
                piece.offset = to(piece.offset.into(), run.offset, 1)?;
                match moved {
                    None => piece.repeats.extend(run.digits.iter().map(|d| (d.count, d.stride as i64))),
                    Some((dimension, coefficient)) => add_dimension(&mut piece, dimension, coefficient.into(), run)?,
                }
                more.push(piece);
            }
        }
        pieces = more;
    }
    for dimension in pieces.iter_mut().flat_map(|piece| &mut piece.dimensions) {
        if !nests(&mut dimension.digits) {
            return Err(Misfit::TooComplex);
        }
    }
    Ok(pieces)
}

fn to(offset: i128, stride: u64, times: u64) -> Result<i64, Misfit> {
    i64::try_from(offset + i128::from(stride) * i128::from(times)).map_err(|_| Misfit::TooLarge)
}

/// Adds the digits of a loop to a dimension. If the index falls as the loop rises, the digits are counted backwards.
fn add_dimension(piece: &mut Piece, dimension: usize, coefficient: i128, run: &Run) -> Result<(), Misfit> {
    let Some(own) = piece.dimensions.get_mut(dimension) else { return Ok(()) };
    own.start += coefficient * i128::from(run.start);
    for digit in &run.digits {
        let weight = coefficient * i128::from(digit.weight);
        let stride = i64::try_from(digit.stride).map_err(|_| Misfit::TooLarge)?;
        if weight < 0 {
            own.start += weight * i128::from(digit.count - 1);
            piece.offset = to(piece.offset.into(), digit.stride, digit.count - 1)?;
        }
        own.digits.push(Part {
            weight: weight.abs(),
            count: digit.count,
            stride: if weight < 0 { -stride } else { stride },
        });
    }
    Ok(())
}

/// The values of a loop that are `start` plus any combination of the digits.
pub(crate) struct Run {
    pub start: u64,
    pub offset: u64,
    pub digits: Vec<Digit>,
}

/// Returns the values of a loop from 0 to its length, as runs. Values beyond the length, which tiles and curves have,
/// are left out.
pub(crate) fn runs(walk: &Walk) -> Vec<Run> {
    let mut runs = Vec::new();
    let (mut start, mut offset, mut left) = (0, 0, walk.length);
    let mut digits = walk.digits.as_slice();
    if digits.is_empty() && left > 0 {
        runs.push(Run { start, offset, digits: Vec::new() });
    }
    while let Some((outer, inner)) = digits.split_first() {
        let whole = left / outer.weight;
        if whole > 0 {
            let first = Digit { count: whole, ..*outer };
            let digits = std::iter::once(first).chain(inner.iter().copied()).filter(|digit| digit.count > 1).collect();
            runs.push(Run { start, offset, digits });
        }
        start += outer.weight * whole;
        offset += outer.stride * whole;
        left -= outer.weight * whole;
        digits = inner;
        if left == 0 {
            break;
        }
    }
    runs
}
