//! Fill values at the places of elements.

use super::{Layout, Placed};
use crate::model::Dataset;

/// One digit of a loop, and its loop.
struct Step {
    number: usize,
    weight: u64,
    count: u64,
    stride: u64,
}

/// The part of a file that is filled.
struct Window<'a> {
    start: u64,
    out: &'a mut [u8],
}

impl Layout {
    /// Writes the fill values of the only file's elements into its bytes from `start` on. Bytes of elements without one, and padding,
    /// stay.
    pub fn fill(&self, dataset: &Dataset, start: u64, out: &mut [u8]) {
        let mut window = Window { start, out };
        for placed in &self.leaves {
            let Some(mut value) = dataset.leaves.get(placed.leaf).and_then(|leaf| leaf.fill.clone()) else { continue };
            if placed.big {
                value.reverse();
            }
            let digits = |(number, walk): (usize, &super::Walk)| {
                let digits = walk.digits.iter();
                digits
                    .map(move |d| Step { number, weight: d.weight, count: d.count, stride: d.stride })
                    .collect::<Vec<_>>()
            };
            let mut steps: Vec<Step> = placed.loops.iter().enumerate().flat_map(digits).collect();
            steps.sort_by_key(|step| std::cmp::Reverse(step.stride));
            window.fill(placed, &steps, placed.offset, &mut vec![0; placed.loops.len()], &value);
        }
    }
}

impl Window<'_> {
    /// Fills the elements that the steps reach from an offset on. `values` are those of the loops so far.
    fn fill(&mut self, placed: &Placed, steps: &[Step], offset: u64, values: &mut [u64], value: &[u8]) {
        let Some((step, inner)) = steps.split_first() else { return self.put(offset, value) };
        let span =
            inner.iter().fold(value.len() as u64, |span, step| span + step.count.saturating_sub(1) * step.stride);
        let length = placed.loops.get(step.number).map_or(0, |walk| walk.length);
        let first = self.start.saturating_sub(offset.saturating_add(span)) / step.stride.max(1);
        let end = self.start + self.out.len() as u64;
        let before = values.get(step.number).copied().unwrap_or(0);
        for digit in first..step.count {
            let (offset, reached) = (offset + digit * step.stride, before + digit * step.weight);
            // Tiles are rounded up: what is behind the array is padding.
            if offset >= end || reached >= length {
                break;
            }
            if let Some(own) = values.get_mut(step.number) {
                *own = reached;
            }
            self.fill(placed, inner, offset, values, value);
        }
        if let Some(own) = values.get_mut(step.number) {
            *own = before;
        }
    }

    /// Writes the part of an element that is in the window.
    fn put(&mut self, offset: u64, value: &[u8]) {
        let skipped = self.start.saturating_sub(offset) as usize;
        let at = offset.saturating_sub(self.start) as usize;
        let room = self.out.get_mut(at..).unwrap_or_default();
        for (into, byte) in room.iter_mut().zip(value.iter().skip(skipped)) {
            *into = *byte;
        }
    }
}
