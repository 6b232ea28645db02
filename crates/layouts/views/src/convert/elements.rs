//! Computes the elements of the dataset that bytes of a view show.

use std::ops::Range;

use super::Stored;
use super::clip::Clipped;
use super::plan::{Part, Plan};
use super::request::Missing;
use crate::layout::{Digit, Layout, Placed, Walk};
use crate::model::{Affine, Dataset, Sizes};

/// Elements of a leaf of the dataset: a range of indices in each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The index of the leaf in the dataset.
    pub leaf: usize,
    /// The indices in each dimension, outermost first.
    pub indices: Vec<Range<u64>>,
}

/// The elements that each byte of a view shows.
#[derive(Clone, Debug)]
pub struct Elements {
    /// The moves from a file for each leaf, in which its elements follow each other with the last index fastest.
    plan: Plan,
    /// The size of an element of each leaf, and its lengths.
    leaves: Vec<(u64, Vec<u64>)>,
}

impl Elements {
    /// Prepares a view's layout for questions.
    pub fn new(view: &Layout, dataset: &Dataset, sizes: &Sizes) -> Elements {
        let leaves: Vec<(u64, Vec<u64>)> = dataset
            .leaves
            .iter()
            .map(|leaf| (leaf.primitive.size(), leaf.lengths.iter().map(|length| length.at(sizes)).collect()))
            .collect();
        let placed = |(number, leaf): (usize, &crate::model::Leaf)| {
            let (size, lengths) = leaves.get(number)?;
            let mut stride = *size;
            let mut loops: Vec<Walk> = Vec::with_capacity(lengths.len());
            for (dimension, length) in lengths.iter().enumerate().rev() {
                let digits = vec![Digit { weight: 1, count: *length, stride }];
                loops.insert(0, Walk { number: dimension, length: *length, digits });
                stride = stride.saturating_mul(*length);
            }
            Some(Placed {
                variable: number,
                leaf: number,
                path: leaf.path.clone(),
                primitive: leaf.primitive,
                big: false,
                file: number,
                offset: 0,
                index: (0..lengths.len()).map(Affine::index).collect(),
                loops,
            })
        };
        let all = dataset.leaves.iter().enumerate().filter_map(placed).collect();
        let stored = Layout { leaves: all, ..Layout::default() };
        Elements { plan: Plan::reading(view, &[Stored { layout: &stored, first_file: 0, rate: 1.0 }]), leaves }
    }

    /// Returns the elements that bytes of the view show, as one slab for each leaf. A slab has all of these elements, and may have some
    /// between them.
    ///
    /// # Errors
    /// [`Missing`] if the bytes are not within the view.
    pub fn shown(&self, bytes: Range<u64>) -> Result<Vec<Slab>, Missing> {
        let length = usize::try_from(bytes.end.saturating_sub(bytes.start)).unwrap_or(usize::MAX);
        let range = self.plan.within(bytes.start, length)?;
        let mut slabs: Vec<Slab> = Vec::new();
        for part in &self.plan.parts {
            let Part::Pair(pair) = part else { continue };
            // To visit the elements one by one would take as long as to read them.
            if let Some((_, lengths)) = self.leaves.get(pair.file) {
                add(&mut slabs, pair.file, lengths.iter().map(|length| 0..*length).collect());
            }
        }
        self.plan.group_boxes(range, &mut |clipped: Clipped| {
            let Some((size, lengths)) = self.leaves.get(clipped.file) else { return };
            for field in &clipped.fields {
                let (from, to) = clipped.only.unwrap_or((0, field.size));
                let mut first = field.b + from as i64;
                let within = first.rem_euclid(*size as i64) as u64;
                let mut steps = vec![((within + to - from).div_ceil(*size), 1)];
                for (count, step) in clipped.counts.iter().zip(&field.steps) {
                    // Counted backwards, so that the numbers rise.
                    first += step.1.min(0).saturating_mul(*count as i64 - 1);
                    steps.push((*count, step.1.unsigned_abs() / size));
                }
                add(&mut slabs, clipped.file, indices(lengths, first.max(0) as u64 / size, &steps));
            }
        });
        slabs.sort_unstable_by_key(|slab| slab.leaf);
        Ok(slabs)
    }
}

/// Returns the indices of elements of an array: those with the number `first` plus any combination of steps, each given as a count and a
/// distance.
fn indices(lengths: &[u64], first: u64, steps: &[(u64, u64)]) -> Vec<Range<u64>> {
    let mut stride = 1u64;
    let mut found: Vec<Range<u64>> = Vec::with_capacity(lengths.len());
    for length in lengths.iter().rev() {
        let row = stride.saturating_mul(*length).max(1);
        // Steps by whole rows keep the place within the row.
        let moving = steps.iter().filter(|(_, distance)| distance % row != 0);
        let span =
            moving.fold(0u64, |sum, (count, distance)| sum.saturating_add((count - 1).saturating_mul(*distance)));
        let (from, to) = (first % row, (first % row).saturating_add(span));
        found.push(if to < row { from / stride..to / stride + 1 } else { 0..*length });
        stride = row;
    }
    found.reverse();
    found
}

/// Adds indices of a leaf to its slab.
fn add(slabs: &mut Vec<Slab>, leaf: usize, indices: Vec<Range<u64>>) {
    match slabs.iter_mut().find(|slab| slab.leaf == leaf) {
        Some(slab) => {
            for (all, new) in slab.indices.iter_mut().zip(indices) {
                *all = all.start.min(new.start)..all.end.max(new.end);
            }
        }
        None => slabs.push(Slab { leaf, indices }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_within_a_row_and_by_rows_give_ranges_of_indices() {
        let lengths = [10, 20];
        // A column of three rows, a part of a row, two parts of rows, every other element of the array, one element.
        assert_eq!(indices(&lengths, 45, &[(3, 20)]), [2..5, 5..6]);
        assert_eq!(indices(&lengths, 42, &[(5, 1)]), [2..3, 2..7]);
        assert_eq!(indices(&lengths, 42, &[(2, 40), (5, 1)]), [2..5, 2..7]);
        assert_eq!(indices(&lengths, 0, &[(100, 2)]), [0..10, 0..20]);
        assert_eq!(indices(&lengths, 199, &[(1, 7)]), [9..10, 19..20]);
        // From the end of a row to the beginning of the next.
        assert_eq!(indices(&lengths, 18, &[(5, 1)]), [0..2, 0..20]);
        assert_eq!(indices(&[], 0, &[(1, 1)]), []);
    }
}
