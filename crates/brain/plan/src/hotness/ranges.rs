//! [`Ranges`]: the scores of an object's blocks, and of the parts of the hottest.

use super::Hotness;
use crate::mix::mix;

/// How many parts a hot block has.
const PARTS: u64 = 16;

/// Scores of blocks of objects; of a block that is hot, also of its sixteenths.
///
/// An access costs one step for each block, and one for each sixteenth of those that are hot.
#[derive(Clone, Debug)]
pub struct Ranges {
    scores: Hotness,
    block: u64,
    hot: f64,
}

impl Ranges {
    /// A table of at least `keys` scores that halve in `half_life` seconds, for blocks of `block` bytes (at least 16);
    /// one with a score of `hot` or more gets scores for its parts.
    pub fn new(keys: usize, half_life: f64, block: u64, hot: f64) -> Ranges {
        Ranges { scores: Hotness::new(keys, half_life), block: block.max(PARTS), hot }
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// The key of the block that holds a byte of an object; also [`Hotness`]'s.
    pub fn key(&self, object: u64, offset: u64) -> u64 {
        mix(mix(1, object), offset / self.block)
    }

    /// The scores of all keys.
    pub fn scores(&self) -> &Hotness {
        &self.scores
    }

    /// Notes an access to bytes of an object at a time in seconds. A block's score grows by the share of it that was
    /// accessed.
    pub fn touch(&mut self, object: u64, offset: u64, length: u64, now: f64) {
        let (block, part) = (self.block, self.block / PARTS);
        for (start, share) in covered(offset, offset.saturating_add(length), block) {
            let key = self.key(object, start);
            let score = self.scores.touch(key, share, now);
            if score < self.hot {
                continue;
            }
            if score - share < self.hot {
                // It is hot from now on: before, any part was as likely as another.
                for key in (0..PARTS).map(|part| mix(key, part)) {
                    let missing = score - share - self.scores.score(key, now);
                    self.scores.touch(key, missing.max(0.0), now);
                }
            }
            let from = offset.max(start) - start;
            let to = offset.saturating_add(length).min(start + block) - start;
            for (start, share) in covered(from, to, part) {
                self.scores.touch(mix(key, start / part), share, now);
            }
        }
    }

    /// The scores of an object's first `length` bytes, as (offset, length, score): block by block, and part by part
    /// where the block is hot.
    pub fn of(&self, object: u64, length: u64, now: f64) -> impl Iterator<Item = (u64, u64, f64)> {
        let blocks = (0..length.div_ceil(self.block)).map(move |index| index * self.block);
        blocks.flat_map(move |start| {
            let key = self.key(object, start);
            let score = self.scores.score(key, now);
            let of = move |part: u64| self.scores.score(mix(key, part), now);
            let fine = score >= self.hot && (0..PARTS).any(|part| of(part) > 0.0);
            let (parts, step) = if fine { (PARTS, self.block / PARTS) } else { (1, self.block) };
            let range = (0..parts).map(move |part| {
                let from = start + part * step;
                let to = if part + 1 == parts { start + self.block } else { from + step };
                let held = to.min(length).saturating_sub(from);
                let score = if fine { of(part) } else { score };
                // Of the last one a part is all that can be accessed.
                (from, held, score * (to - from) as f64 / held.max(1) as f64)
            });
            range.filter(|(_, length, _)| *length > 0)
        })
    }

    /// Takes back what [`Hotness::scores`] of another table gave at a time in seconds.
    pub fn restore(&mut self, scores: impl IntoIterator<Item = (u64, f64)>, then: f64) {
        for (key, score) in scores {
            self.scores.touch(key, score, then);
        }
    }

    /// Forgets an object of so many bytes.
    pub fn forget(&mut self, object: u64, length: u64) {
        for index in 0..length.div_ceil(self.block) {
            let key = self.key(object, index * self.block);
            self.scores.forget(key);
            (0..PARTS).for_each(|part| self.scores.forget(mix(key, part)));
        }
    }
}

/// The steps of a grid that a range covers, each with the share of it that is covered.
fn covered(from: u64, to: u64, step: u64) -> impl Iterator<Item = (u64, f64)> {
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

    const BLOCK: u64 = 1 << 20;

    #[test]
    fn a_blocks_score_is_how_often_it_was_accessed_in_full() {
        let mut ranges = Ranges::new(64, 10.0, BLOCK, 100.0);
        ranges.touch(7, BLOCK / 2, BLOCK, 0.0);
        ranges.touch(7, 0, 2 * BLOCK, 0.0);
        ranges.touch(8, 0, 0, 0.0);
        let scores: Vec<_> = ranges.of(7, 3 * BLOCK - 1, 0.0).collect();
        assert_eq!(scores, [(0, BLOCK, 1.5), (BLOCK, BLOCK, 1.5), (2 * BLOCK, BLOCK - 1, 0.0)]);
        assert_eq!(ranges.of(7, BLOCK / 4, 0.0).next(), Some((0, BLOCK / 4, 6.0)), "a part is all that there is");
        assert_eq!(ranges.of(8, BLOCK, 0.0).next(), Some((0, BLOCK, 0.0)));
        assert_eq!(ranges.of(7, BLOCK, 10.0).next(), Some((0, BLOCK, 0.75)));
        ranges.forget(7, 3 * BLOCK);
        assert!(ranges.of(7, 3 * BLOCK, 0.0).all(|(_, _, score)| score == 0.0));
    }

    #[test]
    fn a_block_that_is_read_in_full_is_as_hot_as_its_parts() {
        let mut ranges = Ranges::new(64, 1e9, BLOCK, 4.0);
        for reads in 1..20 {
            ranges.touch(7, 0, BLOCK, 0.0);
            assert!(ranges.of(7, BLOCK, 0.0).all(|(_, _, score)| (score - f64::from(reads)).abs() < 1e-9));
        }
    }

    #[test]
    fn the_hot_part_of_a_hot_block_is_told_apart() {
        let mut ranges = Ranges::new(64, 1e9, BLOCK, 2.0);
        for _ in 0..100 {
            ranges.touch(7, 3 * BLOCK / 16, BLOCK / 16, 0.0);
        }
        let scores: Vec<_> = ranges.of(7, BLOCK, 0.0).collect();
        assert_eq!(scores.len(), 16);
        let hottest = scores.iter().max_by(|a, b| a.2.total_cmp(&b.2)).expect("one");
        assert_eq!((hottest.0, hottest.1), (3 * BLOCK / 16, BLOCK / 16));
        assert!(scores.iter().filter(|(_, _, score)| *score > hottest.2 / 10.0).count() == 1, "{scores:?}");
    }
}
