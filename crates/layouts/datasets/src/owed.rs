//! The byte ranges that a replica's file still lacks (pending ranges), kept in an attribute of its object.

use std::collections::BTreeMap;
use std::ops::Range;

use terrace::Attributes;

/// The name of the object attribute that holds the owed ranges.
pub const OWED_ATTRIBUTE: &str = "terrace.owed";
/// A file keeps at most this many ranges; [`Owed`] joins the nearest ones, which only adds owed bytes.
const MAX_OWED_RANGES: usize = 32;

/// Byte ranges of a file, sorted and disjoint. A superset of the missing bytes is safe, a subset is not: a reader would
/// take stale bytes for current ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owed(Vec<Range<u64>>);

impl Owed {
    /// Returns the attributes of a dataset's object that lacks these ranges. The mode is read-only, since only this crate
    /// may write such objects.
    pub fn to_attributes(&self) -> Attributes {
        let mut user = BTreeMap::new();
        if !self.is_empty() {
            user.insert(OWED_ATTRIBUTE.to_owned(), self.to_text());
        }
        Attributes { mode: 0o444, user, ..Attributes::now() }
    }

    /// Returns the range that covers a whole file of any length.
    pub fn all() -> Owed {
        Owed(std::iter::once(0..u64::MAX).collect())
    }

    /// Parses the attribute's value. A range that does not parse counts as the whole file, which is the safe reading.
    pub fn parse(text: &str) -> Owed {
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

    /// Returns the attribute's value.
    pub fn to_text(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|range| format!("{}-{}", range.start, range.end)).collect();
        words.join(",")
    }

    /// Returns the first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    /// Returns the first range that ends after byte `from`, cut to begin at `from` or later.
    pub fn first_from(&self, from: u64) -> Option<Range<u64>> {
        self.0.iter().find(|range| range.end > from).map(|range| range.start.max(from)..range.end)
    }

    /// Returns the ranges, in order.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    /// Returns the parts of `bytes` that are not in this set.
    pub fn subtract_from(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let mut rest = bytes;
        let mut remaining = Vec::new();
        for owed in self.0.iter().filter(|owed| !owed.is_empty()) {
            remaining.push(rest.start..rest.end.min(owed.start));
            rest.start = rest.start.max(owed.end);
        }
        remaining.push(rest);
        remaining.retain(|range| !range.is_empty());
        remaining
    }

    /// Returns whether the set is empty.
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
        self.join_nearest_ranges();
    }

    /// Removes a range.
    pub fn remove(&mut self, gone: Range<u64>) {
        // An empty one would split the range that it lies in.
        if gone.is_empty() {
            return;
        }
        let cut = |range: &Range<u64>| [range.start..range.end.min(gone.start), range.start.max(gone.end)..range.end];
        self.0 = self.0.iter().flat_map(cut).filter(|range| !range.is_empty()).collect();
        self.join_nearest_ranges();
    }

    fn join_nearest_ranges(&mut self) {
        while self.0.len() > MAX_OWED_RANGES {
            let Some((at, _)) = self.0.windows(2).enumerate().min_by_key(|(_, pair)| gap_between(pair)) else { return };
            let next = self.0.remove(at + 1);
            if let Some(joined) = self.0.get_mut(at) {
                joined.end = next.end;
            }
        }
    }
}

fn gap_between(pair: &[Range<u64>]) -> u64 {
    match pair {
        [a, b] => b.start.saturating_sub(a.end),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_testkit::Random;

    #[test]
    fn owed_ranges_cover_added_ranges_that_were_not_removed() {
        let mut owed = Owed::default();
        let mut right = vec![false; 10_000];
        let mut random = Random::new(7);
        for turn in 0..5000 {
            let start = random.below(9_000);
            let range = start..start + random.below(100);
            if turn % 3 == 0 {
                owed.remove(range.clone());
            } else {
                owed.add(range.clone());
            }
            right[range.start as usize..range.end as usize].fill(turn % 3 != 0);
            assert_eq!(Owed::parse(&owed.to_text()), owed);
            assert!(owed.0.len() <= MAX_OWED_RANGES && owed.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            for (at, _) in right.iter().enumerate().filter(|(_, owed)| **owed) {
                assert!(owed.0.iter().any(|range| range.contains(&(at as u64))), "byte {at} is forgotten");
            }
        }
        assert_eq!(Owed::parse("3-x").first(), Some(0..u64::MAX));
    }
}
