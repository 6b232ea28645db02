//! What was predicted of what was chosen, and what came of it.

use serde::{Deserialize, Serialize};

use crate::candidates::COUNT;
use terrace_cost::Expected;

/// Comparisons after which old ones begin to count for less.
const MEMORY: f64 = 4096.0;
/// The most that a prediction can be off, as a share: what was interrupted says no more.
const FURTHEST: f64 = 1.0;

/// Of all candidates.
#[derive(Clone, Debug)]
pub struct Record {
    /// By candidate.
    pub tallies: Vec<Tally>,
    /// Seconds spent on choosing.
    pub spent: f64,
    /// Seconds that moving what was chosen for takes.
    pub transfer: f64,
}

/// Of one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// How often it was chosen.
    pub chosen: u64,
    /// Bytes stored.
    pub stored: Pair,
    /// Seconds to encode.
    pub encode: Pair,
    /// Seconds to decode.
    pub decode: Pair,
}

/// Sums of what was predicted and of what came, over the blocks of which both are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    count: f64,
    raw: f64,
    predicted: f64,
    realised: f64,
    off: f64,
}

/// What was predicted beside what came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The mean prediction: raw bytes for each stored byte, or for each second.
    pub predicted: f64,
    /// The mean of what came.
    pub realised: f64,
    /// How far a prediction was off on average, as a share of what came.
    pub error: f64,
}

impl Default for Record {
    fn default() -> Self {
        Record { tallies: vec![Tally::default(); COUNT], spent: 0.0, transfer: 0.0 }
    }
}

impl Record {
    /// Compares what was expected of a candidate for each byte with what came of a block.
    pub fn compare(&mut self, at: usize, expected: &Expected, bytes: f64, real: [Option<f64>; 3]) {
        let Some(tally) = self.tallies.get_mut(at) else { return };
        let Tally { stored, encode, decode, .. } = tally;
        let predicted = [expected.stored, expected.encode, expected.decode];
        for ((pair, predicted), real) in [stored, encode, decode].into_iter().zip(predicted).zip(real) {
            if let Some(real) = real {
                pair.take(bytes, predicted, real);
            }
        }
    }
}

impl Pair {
    fn take(&mut self, bytes: f64, predicted: f64, real: f64) {
        let off = (predicted / real - 1.0).abs().min(FURTHEST);
        if !off.is_finite() {
            return;
        }
        if self.count >= MEMORY {
            let Pair { count, raw, predicted, realised, off } = self;
            [count, raw, predicted, realised, off].into_iter().for_each(|sum| *sum /= 2.0);
        }
        self.count += 1.0;
        self.raw += bytes;
        self.predicted += predicted * bytes;
        self.realised += real * bytes;
        self.off += off;
    }

    /// None where nothing was compared.
    pub fn compared(&self) -> Option<Compared> {
        let Pair { count, raw, predicted, realised, off } = *self;
        let compared = Compared { predicted: raw / predicted, realised: raw / realised, error: off / count };
        (count > 0.0).then_some(compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_errors_are_of_what_was_compared() {
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
        let mut pair = Pair::default();
        (0..10_000).for_each(|_| pair.take(1.0, 2.0, 1.0));
        (0..50_000).for_each(|_| pair.take(1.0, 1.0, 1.0));
        assert!(pair.compared().expect("many").error < 1e-3);
    }
}
