//! Predictions for chosen candidates, and their outcomes.

use serde::{Deserialize, Serialize};

use crate::candidates::CANDIDATE_COUNT;
use terrace_cost::Expected;

/// The number of comparisons after which old ones lose weight.
const MAX_COMPARISONS: f64 = 4096.0;
/// The maximum relative error of a prediction. Larger errors come from interruptions, and count as this one.
const MAX_RELATIVE_ERROR: f64 = 1.0;

/// The record of all candidates.
#[derive(Clone, Debug)]
pub struct Record {
    /// The tallies, by candidate.
    pub tallies: Vec<Tally>,
    /// The time spent on choosing, in seconds.
    pub spent: f64,
    /// The time to transfer the blocks for which an encoding was chosen, in seconds.
    pub transfer: f64,
}

/// The record of one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The number of times it was chosen.
    pub chosen: u64,
    /// The stored bytes.
    pub stored: Comparisons,
    /// The seconds to encode.
    pub encode: Comparisons,
    /// The seconds to decode.
    pub decode: Comparisons,
}

/// Sums of predictions and outcomes, over the blocks for which both are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparisons {
    count: f64,
    raw: f64,
    predicted: f64,
    realised: f64,
    error_sum: f64,
}

/// Predictions compared with outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The mean predicted ratio (raw bytes per stored byte), or speed (raw bytes per second).
    pub predicted: f64,
    /// The mean outcome.
    pub realised: f64,
    /// The mean error of a prediction, relative to the outcome.
    pub error: f64,
}

impl Default for Record {
    fn default() -> Self {
        Record { tallies: vec![Tally::default(); CANDIDATE_COUNT], spent: 0.0, transfer: 0.0 }
    }
}

impl Record {
    /// Compares the expectation for a candidate with the outcome on a block.
    pub fn compare(&mut self, at: usize, expected: &Expected, bytes: f64, real: [Option<f64>; 3]) {
        let Some(tally) = self.tallies.get_mut(at) else { return };
        let Tally { stored, encode, decode, .. } = tally;
        let predicted = [expected.stored, expected.encode, expected.decode];
        for ((pair, predicted), real) in [stored, encode, decode].into_iter().zip(predicted).zip(real) {
            if let Some(real) = real {
                pair.add(bytes, predicted, real);
            }
        }
    }
}

impl Comparisons {
    fn add(&mut self, bytes: f64, predicted: f64, real: f64) {
        let error = (predicted / real - 1.0).abs().min(MAX_RELATIVE_ERROR);
        if !error.is_finite() {
            return;
        }
        if self.count >= MAX_COMPARISONS {
            let Comparisons { count, raw, predicted, realised, error_sum } = self;
            [count, raw, predicted, realised, error_sum].into_iter().for_each(|sum| *sum /= 2.0);
        }
        self.count += 1.0;
        self.raw += bytes;
        self.predicted += predicted * bytes;
        self.realised += real * bytes;
        self.error_sum += error;
    }

    /// Returns the comparison, if there is one.
    pub fn compared(&self) -> Option<Compared> {
        let Comparisons { count, raw, predicted, realised, error_sum } = *self;
        let compared = Compared { predicted: raw / predicted, realised: raw / realised, error: error_sum / count };
        (count > 0.0).then_some(compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_errors_cover_the_comparisons() {
        let mut record = Record::default();
        let expected = Expected { stored: 0.5, encode: 2e-9, decode: 1e-9 };
        record.compare(3, &expected, 1000.0, [Some(0.4), None, Some(1e-9)]);
        record.compare(3, &expected, 3000.0, [Some(0.5), None, None]);
        let Tally { stored, encode, decode, .. } = record.tallies[3];
        let stored = stored.compared().expect("two");
        assert!((stored.predicted - 2.0).abs() < 1e-9 && (stored.realised - 4000.0 / 1900.0).abs() < 1e-9);
        assert!((stored.error - 0.125).abs() < 1e-9, "{stored:?}");
        assert_eq!(encode.compared(), None);
        assert_eq!(decode.compared().expect("one").error, 0.0);
    }

    #[test]
    fn old_comparisons_fade() {
        let mut pair = Comparisons::default();
        (0..10_000).for_each(|_| pair.add(1.0, 2.0, 1.0));
        (0..50_000).for_each(|_| pair.add(1.0, 1.0, 1.0));
        assert!(pair.compared().expect("many").error < 1e-3);
    }
}
