//! What a replica's file still lacks: ranges of its bytes, kept in an attribute of its object.

use std::ops::Range;

/// The attribute.
pub const ATTRIBUTE: &str = "terrace.owed";
/// More ranges than this are joined where they are nearest.
const MOST: usize = 32;

/// Ranges of a file's bytes, in order and apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owed(Vec<Range<u64>>);

impl Owed {
    /// All of a file, however long it is.
    pub fn all() -> Owed {
        Owed(std::iter::once(0..u64::MAX).collect())
    }

    /// Reads the attribute's value. What cannot be read is as if all were owed.
    pub fn read(text: &str) -> Owed {
        let range = |word: &str| {
            let (start, end) = word.split_once('-')?;
            Some(start.parse().ok()?..end.parse().ok()?)
        };
        let mut owed = Owed::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            owed.add(range(word).unwrap_or(0..u64::MAX));
        }
        owed
    }

    /// The attribute's value.
    pub fn text(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|range| format!("{}-{}", range.start, range.end)).collect();
        words.join(",")
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    /// What is left of the first range from a byte on.
    pub fn first_from(&self, from: u64) -> Option<Range<u64>> {
        self.0.iter().find(|range| range.end > from).map(|range| range.start.max(from)..range.end)
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// Those of some bytes that are not owed.
    pub fn others(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let mut rest = bytes;
        let mut others = Vec::new();
        for owed in self.0.iter().filter(|owed| !owed.is_empty()) {
            others.push(rest.start..rest.end.min(owed.start));
            rest.start = rest.start.max(owed.end);
        }
        others.push(rest);
        others.retain(|range| !range.is_empty());
        others
    }

    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a range.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.0);
        all.push(range);
        all.sort_by_key(|range| range.start);
        for range in all {
            match self.0.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => self.0.push(range),
            }
        }
        self.join();
    }

    /// Takes a range out.
    pub fn remove(&mut self, gone: Range<u64>) {
        let cut = |range: &Range<u64>| [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end];
        self.0 = self.0.iter().flat_map(cut).filter(|range| !range.is_empty()).collect();
        self.join();
    }

    fn join(&mut self) {
        while self.0.len() > MOST {
            let Some((at, _)) = self.0.windows(2).enumerate().min_by_key(|(_, pair)| gap(pair)) else { return };
            let next = self.0.remove(at + 1);
            if let Some(joined) = self.0.get_mut(at) {
                joined.end = next.end;
            }
        }
    }
}

fn gap(pair: &[Range<u64>]) -> u64 {
    match pair {
        [a, b] => b.start.saturating_sub(a.end),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_at_least_what_was_added_and_not_removed() {
        let mut owed = Owed::default();
        let mut right = vec![false; 10_000];
        let mut state = 7u64;
        for turn in 0..5000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = (state >> 33) % 9_000;
            let range = start..start + (state >> 50) % 100;
            if turn % 3 == 0 {
                owed.remove(range.clone());
            } else {
                owed.add(range.clone());
            }
            right[range.start as usize..range.end as usize].fill(turn % 3 != 0);
            assert_eq!(Owed::read(&owed.text()), owed);
            assert!(owed.0.len() <= MOST && owed.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            for (at, _) in right.iter().enumerate().filter(|(_, owed)| **owed) {
                assert!(owed.0.iter().any(|range| range.contains(&(at as u64))), "byte {at} is forgotten");
            }
        }
        assert_eq!(Owed::read("3-x").first(), Some(0..u64::MAX));
    }
}
