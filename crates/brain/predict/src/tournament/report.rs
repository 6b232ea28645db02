//! A report about the quality of predictions.

use serde::Serialize;

use super::Predictor;
use crate::candidates::ALL_CANDIDATES;
use crate::model::Compared;

/// The quality of predictions, over all stores and streams of the predictor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The number of blocks.
    pub blocks: u64,
    /// The thread time spent on choosing, in seconds.
    pub spent: f64,
    /// The time to transfer the blocks, in seconds.
    pub transfer: f64,
    /// The encodings that were chosen or read, the most frequently chosen one first.
    pub encodings: Vec<ReportRow>,
}

/// The quality of predictions for one encoding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportRow {
    /// The name of the encoding.
    pub encoding: String,
    /// The number of times it was chosen.
    pub chosen: u64,
    /// The share of blocks for which it was chosen.
    pub share: f64,
    /// Raw bytes per stored byte.
    pub ratio: Option<Compared>,
    /// Raw bytes encoded per second of thread time.
    pub encode: Option<Compared>,
    /// Raw bytes decoded per second of thread time.
    pub decode: Option<Compared>,
}

impl Predictor {
    /// Returns a comparison of predictions with outcomes.
    pub fn report(&self) -> Report {
        let record = &self.model.record;
        let blocks = record.tallies.iter().map(|tally| tally.chosen).sum();
        let rows = ALL_CANDIDATES.iter().zip(&record.tallies).map(|(candidate, tally)| ReportRow {
            encoding: candidate.encoding.to_string(),
            chosen: tally.chosen,
            share: if blocks > 0 { tally.chosen as f64 / blocks as f64 } else { 0.0 },
            ratio: tally.stored.compared(),
            encode: tally.encode.compared(),
            decode: tally.decode.compared(),
        });
        let mut encodings: Vec<ReportRow> = rows.filter(|row| row.chosen > 0 || row.decode.is_some()).collect();
        encodings.sort_by_key(|row| std::cmp::Reverse(row.chosen));
        Report { blocks, spent: record.spent, transfer: record.transfer, encodings }
    }
}
