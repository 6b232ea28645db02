//! [`spans`]: the order and the splits in which an object is placed.

use serde::{Deserialize, Serialize};

/// A run of an object's bytes with a similar hotness.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The mean score of its bytes.
    pub score: f64,
}

/// Merges adjacent ranges whose scores are similar, within a factor of four, and sorts the result by hotness, hottest
/// first. The spans should be planned in this order, each with the space that the preceding ones leave (HReplica
/// IV-C.1, HCompress IV-F.2).
///
/// Takes ranges as [`Ranges::of`](super::Ranges::of) returns them.
pub fn spans(ranges: impl IntoIterator<Item = (u64, u64, f64)>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (offset, length, score) in ranges {
        match spans.last_mut() {
            Some(last)
                if last.offset + last.length == offset && classify_score(last.score) == classify_score(score) =>
            {
                let heat = last.score * last.length as f64 + score * length as f64;
                last.length += length;
                last.score = heat / last.length as f64;
            }
            _ => spans.push(Span { offset, length, score }),
        }
    }
    spans.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.offset.cmp(&b.offset)));
    spans
}

/// Returns the class of a score. Scores of a class differ by a factor below four; all scores below one access in four
/// half-lives are one class.
fn classify_score(score: f64) -> i32 {
    if score < 1.0 / 16.0 { i32::MIN } else { (score.log2() / 2.0).floor() as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_ranges_join_and_the_hottest_come_first() {
        let scores = [0.0, 0.01, 5.0, 6.0, 7.0, 0.3, 70.0, 0.0];
        let ranges = (0u64..).zip(scores).map(|(index, score)| (index * 10, 10, score));
        let found = spans(ranges);
        let places: Vec<(u64, u64)> = found.iter().map(|span| (span.offset, span.length)).collect();
        assert_eq!(places, [(60, 10), (20, 30), (50, 10), (0, 20), (70, 10)]);
        assert_eq!(found[1].score, 6.0);
        assert_eq!(found.iter().map(|span| span.length).sum::<u64>(), 80, "nothing is lost");
    }

    #[test]
    fn ranges_with_a_gap_between_do_not_join() {
        assert_eq!(spans([(0, 10, 1.0), (20, 10, 1.0)]).len(), 2);
        assert!(spans([]).is_empty());
    }
}
