//! Moves elements one by one, for the few pairs of layouts that no descriptors describe.

use super::field::{Field, Group};
use super::route::Route;
use super::side::runs;
use crate::layout::{Digit, Placed, Walk};
use crate::model::Affine;

/// A leaf of a view, and its stored counterpart.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub view: Placed,
    pub stored: Placed,
    pub file: usize,
}

impl Pair {
    pub(crate) fn new(route: &Route) -> Pair {
        Pair { view: route.view.clone(), stored: route.stored.clone(), file: route.file }
    }

    /// Calls `each` for the elements that overlap these bytes of the view, in their order there. With `all`, every
    /// stored copy of an element is included. Stops at an error of `each`.
    pub(crate) fn each<E>(
        &self,
        start: u64,
        end: u64,
        all: bool,
        each: &mut dyn FnMut(Group) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut levels = Vec::new();
        for walk in &self.view.loops {
            levels.extend(walk.digits.iter().map(|digit| Level {
                stride: digit.stride,
                count: digit.count,
                walk,
                weight: digit.weight,
            }));
        }
        levels.sort_by_key(|level| std::cmp::Reverse(level.stride));
        let mut values: Vec<(usize, u64)> = self.view.loops.iter().map(|walk| (walk.number, 0)).collect();
        self.level(&levels, self.view.offset, start, end, all, &mut values, each)
    }

    #[allow(clippy::too_many_arguments, reason = "a recursion that carries its state")]
    fn level<E>(
        &self,
        levels: &[Level],
        at: u64,
        start: u64,
        end: u64,
        all: bool,
        values: &mut Vec<(usize, u64)>,
        each: &mut dyn FnMut(Group) -> Result<(), E>,
    ) -> Result<(), E> {
        let span: u64 = levels.iter().map(|level| level.stride * (level.count - 1)).sum();
        if at >= end || at + span + self.view.primitive.size() <= start {
            return Ok(());
        }
        let Some((outer, inner)) = levels.split_first() else {
            let beyond = self.view.loops.iter().zip(&*values).any(|(walk, (_, value))| *value >= walk.length);
            return if beyond { Ok(()) } else { self.element(at, values, all, each) };
        };
        // Skip digits before the request instead of testing each value.
        let below = span - outer.stride * (outer.count - 1) + self.view.primitive.size();
        let first = start.saturating_sub(at + below).checked_div(outer.stride).unwrap_or(0);
        for digit in first..outer.count {
            let place = at + digit * outer.stride;
            if place >= end {
                break;
            }
            let slot = values.iter().position(|(number, _)| *number == outer.walk.number);
            let add = digit * outer.weight;
            if let Some((_, value)) = slot.and_then(|slot| values.get_mut(slot)) {
                *value += add;
            }
            let done = self.level(inner, place, start, end, all, values, each);
            if let Some((_, value)) = slot.and_then(|slot| values.get_mut(slot)) {
                *value -= add;
            }
            done?;
        }
        Ok(())
    }

    /// Handles one element: computes its index and its stored offset.
    fn element<E>(
        &self,
        at: u64,
        values: &[(usize, u64)],
        all: bool,
        each: &mut dyn FnMut(Group) -> Result<(), E>,
    ) -> Result<(), E> {
        let value = |affine: &Affine| {
            affine.terms.iter().fold(i128::from(affine.constant), |sum, (index, coefficient)| {
                let value = values.iter().find(|(number, _)| number == index).map_or(0, |(_, value)| *value);
                sum + i128::from(*coefficient) * i128::from(value)
            })
        };
        let index: Vec<i128> = self.view.index.iter().map(value).collect();
        let Some(place) = locate(&self.stored, &index) else { return Ok(()) };
        let swap = self.view.big != self.stored.big;
        let mut copies = vec![(place, Vec::new())];
        for walk in self.stored.loops.iter().filter(|walk| all && repeats(&self.stored, walk)) {
            let runs = runs(walk);
            let with = |(place, digits): &(u64, Vec<Digit>)| -> Vec<(u64, Vec<Digit>)> {
                runs.iter().map(|run| (place + run.offset, [&digits[..], &run.digits].concat())).collect()
            };
            copies = copies.iter().flat_map(with).collect();
        }
        for (place, digits) in copies {
            let counts = digits.iter().map(|digit| digit.count).collect();
            let steps = digits.iter().map(|digit| (0, digit.stride as i64)).collect();
            let field = Field { a: at as i64, b: place as i64, size: 0, unit: 1, steps };
            let fields = self.view.primitive.parts().into_iter().map(|part| field.part(part, swap)).collect();
            each(Group { file: self.file, counts, fields })?;
        }
        Ok(())
    }
}

struct Level<'a> {
    stride: u64,
    count: u64,
    weight: u64,
    walk: &'a Walk,
}

fn repeats(placed: &Placed, walk: &Walk) -> bool {
    !placed.index.iter().flat_map(|affine| &affine.terms).any(|(index, _)| *index == walk.number)
}

/// Returns the offset of an element in a regular leaf, if the leaf contains it.
fn locate(placed: &Placed, index: &[i128]) -> Option<u64> {
    let mut place = placed.offset;
    for (affine, wanted) in placed.index.iter().zip(index) {
        let mut left = wanted - i128::from(affine.constant);
        let mut terms: Vec<(&Walk, i128)> = Vec::new();
        for (number, coefficient) in &affine.terms {
            let walk = placed.loops.iter().find(|walk| walk.number == *number)?;
            let coefficient = i128::from(*coefficient);
            // A negative coefficient counts backwards, so that the index rises.
            if coefficient < 0 {
                left -= coefficient * i128::from(walk.length.checked_sub(1)?);
            }
            terms.push((walk, coefficient));
        }
        terms.sort_by_key(|(_, coefficient)| -coefficient.abs());
        for (walk, coefficient) in terms {
            let digit = left.div_euclid(coefficient.abs());
            let digit = u64::try_from(digit).ok()?.min(walk.length.checked_sub(1)?);
            left -= i128::from(digit) * coefficient.abs();
            let mut value = if coefficient < 0 { walk.length - 1 - digit } else { digit };
            for part in &walk.digits {
                let digit = value / part.weight;
                value -= digit * part.weight;
                place += digit * part.stride;
            }
        }
        if left != 0 {
            return None;
        }
    }
    Some(place)
}
