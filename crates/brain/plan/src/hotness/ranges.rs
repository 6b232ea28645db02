//! [`Ranges`]: the scores of an object's blocks, and of the parts of the hottest.

use super::Hotness;
use crate::mix::mix;

/// The number of parts that a hot block is divided into.
const PARTS_PER_BLOCK: u64 = 16;

/// The scores of blocks of objects, and of the sixteenths of hot blocks.
///
/// An access updates one score for each block, and one for each accessed sixteenth of a hot block.
#[derive(Clone, Debug)]
pub struct Ranges {
    scores: Hotness,
    block: u64,
    hot: f64,
}

impl Ranges {
    /// Creates a table of at least `keys` scores that halve in `half_life` seconds, for blocks of `block` bytes (at
    /// least 16). A block with a score of `hot` or more also gets scores for its parts.
    pub fn new(keys: usize, half_life: f64, block: u64, hot: f64) -> Ranges {
        Ranges { scores: Hotness::new(keys, half_life), block: block.max(PARTS_PER_BLOCK), hot }
    }

    /// Returns the size of a block in bytes.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Returns the key, also in [`Hotness`], of the block that contains a byte of an object.
    pub fn key(&self, object: u64, offset: u64) -> u64 {
        mix(mix(1, object), offset / self.block)
    }

    /// Returns the scores of all keys.
    pub fn scores(&self) -> &Hotness {
        &self.scores
    }

    /// Records an access to bytes of an object at a time in seconds. A block's score grows by the accessed share of the
    /// block.
    pub fn touch(&mut self, object: u64, offset: u64, length: u64, now: f64) {
        let (block, part) = (self.block, self.block / PARTS_PER_BLOCK);
        for (start, share) in overlapping_steps(offset, offset.saturating_add(length), block) {
            let key = self.key(object, start);
            let score = self.scores.touch(key, share, now);
            if score < self.hot {
                continue;
            }
            if score - share < self.hot {
                // The block becomes hot with this access. Its earlier accesses are distributed evenly over its parts.
                for key in (0..PARTS_PER_BLOCK).map(|part| mix(key, part)) {
                    let missing = score - share - self.scores.score(key, now);
                    self.scores.touch(key, missing.max(0.0), now);
                }
            }
            let from = offset.max(start) - start;
            let to = offset.saturating_add(length).min(start + block) - start;
            for (start, share) in overlapping_steps(from, to, part) {
                self.scores.touch(mix(key, start / part), share, now);
            }
        }
    }

    /// Returns the scores of an object's first `length` bytes as (offset, length, score): per block, or per part if the
    /// block is hot.
    pub fn of(&self, object: u64, length: u64, now: f64) -> impl Iterator<Item = (u64, u64, f64)> {
        let blocks = (0..length.div_ceil(self.block)).map(move |index| index * self.block);
        blocks.flat_map(move |start| {
            let key = self.key(object, start);
            let score = self.scores.score(key, now);
            let of = move |part: u64| self.scores.score(mix(key, part), now);
            let fine = score >= self.hot && (0..PARTS_PER_BLOCK).any(|part| of(part) > 0.0);
            let (parts, step) = if fine { (PARTS_PER_BLOCK, self.block / PARTS_PER_BLOCK) } else { (1, self.block) };
            let range = (0..parts).map(move |part| {
                let from = start + part * step;
                let to = if part + 1 == parts { start + self.block } else { from + step };
                let held = to.min(length).saturating_sub(from);
                let score = if fine { of(part) } else { score };
                // The last range may be shorter than a block or part; its score is scaled to the bytes that exist.
                (from, held, score * (to - from) as f64 / held.max(1) as f64)
            });
            range.filter(|(_, length, _)| *length > 0)
        })
    }

    /// Restores the scores that [`Hotness::scores`] of another table returned at time `then` in seconds.
    pub fn restore(&mut self, scores: impl IntoIterator<Item = (u64, f64)>, then: f64) {
        for (key, score) in scores {
            self.scores.touch(key, score, then);
        }
    }

    /// Removes the scores of an object of `length` bytes.
    pub fn forget(&mut self, object: u64, length: u64) {
        for index in 0..length.div_ceil(self.block) {
            let key = self.key(object, index * self.block);
            self.scores.forget(key);
            (0..PARTS_PER_BLOCK).for_each(|part| self.scores.forget(mix(key, part)));
        }
    }
}

/// Returns the start of each grid step that a range overlaps, and the covered share of the step.
fn overlapping_steps(from: u64, to: u64, step: u64) -> impl Iterator<Item = (u64, f64)> {
    let first = from / step;
    let steps = if from < to { (to - 1) / step - first + 1 } else { 0 };
    (first..first + steps).map(move |index| {
        let start = index * step;
        (start, (to.min(start + step) - from.max(start)) as f64 / step as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK_BYTES: u64 = 1 << 20;

    #[test]
    fn a_blocks_score_is_how_often_it_was_accessed_in_full() {
        let mut ranges = Ranges::new(64, 10.0, BLOCK_BYTES, 100.0);
        ranges.touch(7, BLOCK_BYTES / 2, BLOCK_BYTES, 0.0);
        ranges.touch(7, 0, 2 * BLOCK_BYTES, 0.0);
        ranges.touch(8, 0, 0, 0.0);
        let scores: Vec<_> = ranges.of(7, 3 * BLOCK_BYTES - 1, 0.0).collect();
        assert_eq!(
            scores,
            [(0, BLOCK_BYTES, 1.5), (BLOCK_BYTES, BLOCK_BYTES, 1.5), (2 * BLOCK_BYTES, BLOCK_BYTES - 1, 0.0)]
        );
        assert_eq!(
            ranges.of(7, BLOCK_BYTES / 4, 0.0).next(),
            Some((0, BLOCK_BYTES / 4, 6.0)),
            "a part is all that there is"
        );
        assert_eq!(ranges.of(8, BLOCK_BYTES, 0.0).next(), Some((0, BLOCK_BYTES, 0.0)));
        assert_eq!(ranges.of(7, BLOCK_BYTES, 10.0).next(), Some((0, BLOCK_BYTES, 0.75)));
        ranges.forget(7, 3 * BLOCK_BYTES);
        assert!(ranges.of(7, 3 * BLOCK_BYTES, 0.0).all(|(_, _, score)| score == 0.0));
    }

    #[test]
    fn a_block_that_is_read_in_full_is_as_hot_as_its_parts() {
        let mut ranges = Ranges::new(64, 1e9, BLOCK_BYTES, 4.0);
        for reads in 1..20 {
            ranges.touch(7, 0, BLOCK_BYTES, 0.0);
            assert!(ranges.of(7, BLOCK_BYTES, 0.0).all(|(_, _, score)| (score - f64::from(reads)).abs() < 1e-9));
        }
    }

    #[test]
    fn the_hot_part_of_a_hot_block_has_its_own_score() {
        let mut ranges = Ranges::new(64, 1e9, BLOCK_BYTES, 2.0);
        for _ in 0..100 {
            ranges.touch(7, 3 * BLOCK_BYTES / 16, BLOCK_BYTES / 16, 0.0);
        }
        let scores: Vec<_> = ranges.of(7, BLOCK_BYTES, 0.0).collect();
        assert_eq!(scores.len(), 16);
        let hottest = scores.iter().max_by(|a, b| a.2.total_cmp(&b.2)).expect("one");
        assert_eq!((hottest.0, hottest.1), (3 * BLOCK_BYTES / 16, BLOCK_BYTES / 16));
        assert!(scores.iter().filter(|(_, _, score)| *score > hottest.2 / 10.0).count() == 1, "{scores:?}");
    }
}
