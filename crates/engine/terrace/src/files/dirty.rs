//! Buffered bytes of a file that are not yet in the store.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::spare::Spare;

/// Written ranges by offset. They never overlap, and none crosses a multiple of the block's length.
pub struct Dirty {
    pieces: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    spare: Arc<Spare>,
}

impl Dirty {
    /// Creates an empty buffer, whose pieces take their memory from `spare` and are cut to its blocks.
    pub fn new(spare: &Arc<Spare>) -> Dirty {
        Dirty { pieces: BTreeMap::new(), bytes: 0, spare: spare.clone() }
    }

    /// Returns the number of buffered bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the offset behind the last byte, or 0 if there is none.
    pub fn end(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(at, piece)| at + piece.len() as u64)
    }

    /// Writes bytes over older ones. Bytes that directly follow a piece are added to it, so that a stream of short writes
    /// becomes one piece.
    pub fn write(&mut self, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let next = self.pieces.range(offset + 1..).next().map_or(u64::MAX, |(at, _)| *at);
            let block = self.spare.block();
            let stop = next.min((offset - offset % block).saturating_add(block));
            let room = usize::try_from(stop - offset).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            match self.pieces.range_mut(..=offset).next_back() {
                Some((at, piece)) if offset - at <= piece.len() as u64 && at / block == offset / block => {
                    let skip = (offset - at) as usize;
                    let over = now.len().min(piece.len() - skip);
                    piece[skip..skip + over].copy_from_slice(&now[..over]);
                    self.spare.lengthen(piece, &now[over..]);
                    self.bytes += now.len() - over;
                }
                _ => {
                    let mut piece = Vec::new();
                    self.spare.lengthen(&mut piece, now);
                    self.pieces.insert(offset, piece);
                    self.bytes += now.len();
                }
            }
            offset += room as u64;
            bytes = later;
        }
    }

    /// Drops the bytes in `start..end`.
    pub fn clear(&mut self, start: u64, end: u64) {
        let before = self.pieces.range(..start).next_back().map(|(at, _)| *at);
        let inside = self.pieces.range(start..end).map(|(at, _)| *at);
        let touched: Vec<u64> = before.into_iter().chain(inside).collect();
        for at in touched {
            let Some(mut piece) = self.pieces.remove(&at) else { continue };
            self.bytes -= piece.len();
            let stop = at + piece.len() as u64;
            if stop > end {
                let tail = piece.split_off((end.max(at) - at) as usize);
                self.bytes += tail.len();
                self.pieces.insert(end.max(at), tail);
            }
            piece.truncate(start.saturating_sub(at) as usize);
            if piece.is_empty() {
                self.spare.give(piece);
            } else {
                self.bytes += piece.len();
                self.pieces.insert(at, piece);
            }
        }
    }

    /// Copies the buffered bytes from `offset` on over those in `out`.
    pub fn overlay(&self, offset: u64, out: &mut [u8]) {
        let end = offset + out.len() as u64;
        let first = self.pieces.range(..=offset).next_back().map_or(offset, |(at, _)| *at);
        for (at, piece) in self.pieces.range(first..end) {
            let (start, stop) = ((*at).max(offset), (at + piece.len() as u64).min(end));
            if start < stop {
                let from = &piece[(start - at) as usize..(stop - at) as usize];
                out[(start - offset) as usize..(stop - offset) as usize].copy_from_slice(from);
            }
        }
    }

    /// Returns whether all bytes in `start..end` are buffered.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let first = self.pieces.range(..=start).next_back().map_or(start, |(at, _)| *at);
        let mut at = start;
        for (from, piece) in self.pieces.range(first..end.max(first)) {
            if *from > at {
                return false;
            }
            at = at.max(from + piece.len() as u64);
        }
        at >= end
    }

    /// Returns whether any byte in `start..end` is buffered.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        let before = self.pieces.range(..end).next_back();
        before.is_some_and(|(at, piece)| at + piece.len() as u64 > start)
    }

    /// Returns the completely buffered blocks among those that `start..end` touches.
    pub fn whole_blocks(&self, start: u64, end: u64) -> Vec<(u64, &[u8])> {
        let block = self.spare.block();
        let touched = self.pieces.range(start - start % block..end);
        touched.filter(|(_, piece)| piece.len() as u64 == block).map(|(at, piece)| (*at, piece.as_slice())).collect()
    }

    /// Returns all bytes in order. Adjacent pieces are joined, but runs end at multiples of `block`.
    pub fn runs(&self, block: u64) -> Vec<(u64, Cow<'_, [u8]>)> {
        let mut runs: Vec<(u64, Cow<'_, [u8]>)> = Vec::new();
        for (at, piece) in &self.pieces {
            let (mut at, mut rest) = (*at, piece.as_slice());
            while !rest.is_empty() {
                let room = usize::try_from(block - at % block).unwrap_or(usize::MAX).min(rest.len());
                let (now, later) = rest.split_at(room);
                match runs.last_mut() {
                    Some((start, run)) if *start + run.len() as u64 == at && at % block != 0 => {
                        run.to_mut().extend_from_slice(now);
                    }
                    _ => runs.push((at, Cow::Borrowed(now))),
                }
                at += room as u64;
                rest = later;
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        Clear(u64, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u64..200, prop::collection::vec(any::<u8>(), 1..50)).prop_map(|(at, bytes)| Step::Write(at, bytes)),
            (0u64..200, 0u64..80).prop_map(|(at, length)| Step::Clear(at, at + length)),
        ]
    }

    proptest! {
        /// Against the slow oracle: one optional byte for each offset.
        #[test]
        fn each_byte_is_the_last_one_written(steps in prop::collection::vec(step(), 1..60), block in 1u64..70) {
            let mut dirty = Dirty::new(&Arc::new(Spare::new(block as usize)));
            let mut bytes: Vec<Option<u8>> = vec![None; 300];
            for step in steps {
                match step {
                    Step::Write(at, new) => {
                        dirty.write(at, &new);
                        bytes.iter_mut().skip(at as usize).zip(&new).for_each(|(old, new)| *old = Some(*new));
                    }
                    Step::Clear(start, end) => {
                        dirty.clear(start, end);
                        bytes[start as usize..end as usize].fill(None);
                    }
                }
                let end = bytes.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
                prop_assert_eq!(dirty.end(), end as u64);
                prop_assert_eq!(dirty.bytes(), bytes.iter().flatten().count());
            }
            let (mut low, mut high) = ([1; 300], [2; 300]);
            dirty.overlay(0, &mut low);
            dirty.overlay(100, &mut high[100..]);
            let mut seen = vec![None; 300];
            for (at, run) in dirty.runs(block) {
                prop_assert!(at / block == (at + run.len() as u64 - 1) / block);
                seen[at as usize..at as usize + run.len()].iter_mut().zip(run.iter()).for_each(|(s, b)| *s = Some(*b));
            }
            for (at, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(seen[at], *byte);
                prop_assert_eq!(low[at], byte.unwrap_or(1));
                prop_assert_eq!(high[at], if at < 100 { 2 } else { byte.unwrap_or(2) });
                prop_assert_eq!(dirty.covers(at as u64, at as u64 + 1), byte.is_some());
                prop_assert_eq!(dirty.touches(at as u64, at as u64 + 1), byte.is_some());
            }
            for (at, whole) in dirty.whole_blocks(0, 300) {
                prop_assert!(at % block == 0 && whole.len() as u64 == block);
                prop_assert!(dirty.covers(at, at + block));
            }
            for range in [100..200, 3..150] {
                let all = bytes[range.start as usize..range.end as usize].iter();
                prop_assert_eq!(dirty.covers(range.start, range.end), all.clone().all(Option::is_some));
                prop_assert_eq!(dirty.touches(range.start, range.end), all.clone().any(Option::is_some));
            }
        }
    }
}
