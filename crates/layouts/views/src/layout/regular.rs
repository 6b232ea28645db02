//! Indices that are positional numbers, so that the offset of each element can be computed.

use super::Placed;

/// A digit of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub weight: i128,
    pub count: u64,
    pub stride: i64,
}

/// Returns whether the offset of each element can be computed from its index.
pub(crate) fn is_regular(placed: &Placed) -> bool {
    let mut used = Vec::new();
    placed.index.iter().all(|affine| {
        let mut parts = Vec::new();
        for (index, coefficient) in &affine.terms {
            let Some(walk) = placed.loops.iter().find(|walk| walk.number == *index) else { return false };
            if used.contains(index) {
                return false;
            }
            used.push(*index);
            parts.push(Part { weight: i128::from(*coefficient).abs(), count: walk.length, stride: 0 });
        }
        nests(&mut parts)
    })
}

/// Sorts digits and returns whether they form a positional number system.
pub(crate) fn nests(parts: &mut Vec<Part>) -> bool {
    parts.retain(|part| part.count != 1);
    parts.sort_unstable_by_key(|part| -part.weight);
    let mut below = 0;
    parts.iter().rev().all(|part| {
        let above = part.weight > below;
        below += part.weight * i128::from(part.count.saturating_sub(1));
        above
    })
}
