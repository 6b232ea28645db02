//! Shapes of tiles that suit the slabs that are read.

use std::ops::Range;

use terrace_views::model::Model;

use crate::access::{Access, Shape};

/// A tile has about as many bytes as the store fetches at a time, at least, ...
const MIN_TILE_BYTES: u64 = 64 << 10;
/// ... and at most these.
const MAX_TILE_BYTES: u64 = 1 << 20;
/// The number of shapes that are compared for an array.
const MAX_SHAPES: usize = 3;

/// Returns shapes of tiles for an array of these lengths, whose leaves are `own`: those of the slabs that are read, and one that is equally long
/// in each dimension.
pub fn tile_shapes(model: &Model, lengths: &[u64], own: &Range<usize>, accesses: &[(Access, Shape)]) -> Vec<Vec<u64>> {
    let mut shapes: Vec<Vec<u64>> = Vec::new();
    let mut add = |shape: Vec<u64>| {
        if shapes.len() < MAX_SHAPES && !shapes.contains(&shape) && shape != lengths {
            shapes.push(shape);
        }
    };
    for slab in accesses.iter().flat_map(|(_, shape)| shape).filter(|slab| own.contains(&slab.leaf)) {
        let read: Vec<u64> = slab.indices.iter().take(lengths.len()).map(|range| range.end - range.start).collect();
        let Some(leaf) = model.dataset.leaves.get(slab.leaf).filter(|_| read.len() == lengths.len()) else { continue };
        if read == lengths || read.contains(&0) {
            continue;
        }
        let inner = leaf.lengths.iter().skip(lengths.len()).map(|length| length.at(&Default::default()));
        let element = inner.fold(leaf.primitive.size(), u64::saturating_mul).max(1);
        add(fitted(read, lengths, element));
        add(fitted(vec![1; lengths.len()], lengths, element));
    }
    shapes
}

/// Grows or shrinks a tile until its bytes are within the limits, if they can be.
fn fitted(mut tile: Vec<u64>, lengths: &[u64], element: u64) -> Vec<u64> {
    let bytes = |tile: &[u64]| tile.iter().fold(element, |product, length| product.saturating_mul(*length));
    while bytes(&tile) < MIN_TILE_BYTES {
        let sides = tile.iter_mut().zip(lengths).filter(|(side, length)| **side < **length);
        let Some((side, length)) = sides.min_by_key(|(side, _)| **side) else { break };
        *side = (*side * 2).min(*length);
    }
    while bytes(&tile) > MAX_TILE_BYTES {
        match tile.iter_mut().max_by_key(|side| **side) {
            Some(side) if *side > 1 => *side = side.div_ceil(2),
            _ => break,
        }
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_slabs_and_chunks() {
        assert_eq!(fitted(vec![1, 1], &[10_000, 10_000], 8), [128, 64]);
        assert_eq!(fitted(vec![64, 200], &[10_000, 10_000], 8), [64, 200]);
        assert_eq!(fitted(vec![1, 10_000], &[10_000, 10_000], 8), [1, 10_000]);
        assert_eq!(fitted(vec![10_000, 10_000], &[10_000, 10_000], 8), [313, 313]);
        assert_eq!(fitted(vec![1, 1], &[10, 10], 8), [10, 10]);
        assert_eq!(fitted(vec![1], &[10], 1 << 30), [1]);
    }
}
