//! How well predictions have served.

use serde::Serialize;

use super::Predictor;
use crate::candidates::ALL;
use crate::model::Compared;

/// How well predictions have served, over all stores and streams that the predictor chose for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Blocks that were chosen for.
    pub blocks: u64,
    /// Seconds of thread time spent on choosing.
    pub spent: f64,
    /// Seconds that moving the blocks takes.
    pub transfer: f64,
    /// Encodings that were chosen or read, the one chosen most first.
    pub encodings: Vec<ReportRow>,
}

/// How well predictions of one encoding have served.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportRow {
    /// Its name.
    pub encoding: String,
    /// How often it was chosen.
    pub chosen: u64,
    /// The share of blocks for which it was.
    pub share: f64,
    /// Raw bytes for each stored byte.
    pub ratio: Option<Compared>,
    /// Raw bytes encoded in a second of thread time.
    pub encode: Option<Compared>,
    /// Raw bytes decoded in a second of thread time.
    pub decode: Option<Compared>,
}

impl Predictor {
    /// What was predicted, beside what came.
    pub fn report(&self) -> Report {
        let record = &self.model.record;
        let blocks = record.tallies.iter().map(|tally| tally.chosen).sum();
        let rows = ALL.iter().zip(&record.tallies).map(|(candidate, tally)| ReportRow {
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
