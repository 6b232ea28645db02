//! Sets of elements of a leaf as products of progressions, and the number of elements that no set of a list contains.

use super::view::{Seen, ViewVariable};
use super::{Dataset, Sizes};

/// `start, start + step, ...`, `count` numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progression {
    pub start: i128,
    pub step: i128,
    pub count: u64,
}

/// The elements whose index in each dimension is in the progression of that dimension.
pub(crate) type Set = Vec<Progression>;

/// Returns the set of all elements of a leaf.
pub(crate) fn all(dataset: &Dataset, leaf: usize, sizes: &Sizes) -> Set {
    let lengths = dataset.leaves.get(leaf).map_or(&[][..], |leaf| &leaf.lengths);
    lengths.iter().map(|length| Progression { start: 0, step: 1, count: length.at(sizes) }).collect()
}

/// Returns the elements of a leaf that a variable shows, if they are a product of progressions.
pub(crate) fn seen(seen: &Seen, lengths: &[u64]) -> Option<Set> {
    let mut used = Vec::new();
    let mut set = Set::new();
    for affine in &seen.index {
        let mut start = i128::from(affine.constant);
        let mut digits: Vec<(i128, u64)> = Vec::new();
        for (index, coefficient) in &affine.terms {
            if used.contains(index) {
                return None;
            }
            used.push(*index);
            let (count, step) = (*lengths.get(*index)?, i128::from(*coefficient));
            if step < 0 {
                start += step * i128::from(count.saturating_sub(1));
            }
            digits.push((step.abs(), count));
        }
        if digits.iter().any(|(_, count)| *count == 0) {
            set.push(Progression { start, step: 1, count: 0 });
            continue;
        }
        digits.retain(|(_, count)| *count > 1);
        digits.sort_unstable();
        let (mut step, mut count) = (1, 1u64);
        for (weight, runs) in digits {
            if count == 1 {
                (step, count) = (weight, runs);
            } else if weight == step * i128::from(count) {
                count = count.checked_mul(runs)?;
            } else {
                return None;
            }
        }
        set.push(Progression { start, step, count });
    }
    Some(set)
}

/// Returns the loops around a leaf that do not change the element: they repeat it.
pub(crate) fn repeated(seen: &Seen, around: &[usize], lengths: &[u64]) -> bool {
    around.iter().any(|number| {
        let used = seen.index.iter().flat_map(|affine| &affine.terms).any(|(index, _)| index == number);
        !used && lengths.get(*number).is_some_and(|length| *length > 1)
    })
}

/// Returns the number of elements of a set.
pub(crate) fn count(set: &Set) -> u128 {
    set.iter().fold(1, |product, p| product * u128::from(p.count))
}

/// Returns the intersection.
pub(crate) fn both(a: &Set, b: &Set) -> Set {
    a.iter().zip(b).map(|(a, b)| meet(*a, *b)).collect()
}

/// Returns the intersection of two progressions, which is a progression.
pub(crate) fn meet(a: Progression, b: Progression) -> Progression {
    let none = Progression { start: 0, step: 1, count: 0 };
    if a.count == 0 || b.count == 0 {
        return none;
    }
    let (divisor, inverse) = bezout(a.step, b.step);
    if (b.start - a.start) % divisor != 0 {
        return none;
    }
    // Find the first member of `a` that is in the endless `b`.
    let times = ((b.start - a.start) / divisor).checked_mul(inverse).map(|t| t.rem_euclid(b.step / divisor));
    let Some(first) = times.and_then(|t| a.start.checked_add(a.step.checked_mul(t)?)) else { return none };
    let Some(step) = (a.step / divisor).checked_mul(b.step) else { return none };
    let last = |p: Progression| p.start + p.step * i128::from(p.count - 1);
    let start = if first >= b.start { first } else { first + (b.start - first + step - 1) / step * step };
    let end = last(a).min(last(b));
    if start > end {
        return none;
    }
    Progression { start, step, count: u64::try_from((end - start) / step + 1).unwrap_or(u64::MAX) }
}

/// Returns the greatest common divisor, and x with `a * x = divisor` modulo b.
fn bezout(a: i128, b: i128) -> (i128, i128) {
    let (mut old, mut new) = ((a, 1), (b, 0));
    while new.0 != 0 {
        let q = old.0 / new.0;
        (old, new) = (new, (old.0 - q * new.0, old.1 - q * new.1));
    }
    old
}

/// Returns the number of a set's elements that at least one set of a list contains, or `None` if counting takes too
/// long.
pub(crate) fn covered(set: &Set, list: &[Set]) -> Option<u128> {
    fn steps(set: &Set, list: &[Set], budget: &mut u32) -> Option<u128> {
        *budget = budget.checked_sub(1)?;
        let met: Vec<Set> = list.iter().map(|other| both(set, other)).filter(|m| count(m) > 0).collect();
        let whole = count(set);
        if met.iter().any(|m| count(m) == whole) {
            return Some(whole);
        }
        let Some((first, rest)) = met.split_first() else { return Some(0) };
        Some(count(first) + steps(set, rest, budget)? - steps(first, rest, budget)?)
    }
    if count(set) == 0 {
        return Some(0);
    }
    steps(set, list, &mut 10_000)
}

/// Returns each leaf that a variable shows, with the loops around it.
pub(crate) fn around(variable: &ViewVariable) -> Vec<(&Seen, Vec<usize>)> {
    use super::view::Node;
    fn walk<'a>(node: &'a Node, loops: &mut Vec<usize>, all: &mut Vec<(&'a Seen, Vec<usize>)>) {
        match node {
            Node::Leaf(seen) => all.push((seen, loops.clone())),
            Node::Struct(members) => members.iter().for_each(|(_, node)| walk(node, loops, all)),
            Node::Array(own, element) => {
                loops.extend(own);
                walk(element, loops, all);
                loops.truncate(loops.len() - own.len());
            }
        }
    }
    let mut all = Vec::new();
    walk(&variable.node, &mut Vec::new(), &mut all);
    all
}
