//! The costs of our choices, of the best fixed choice and of the oracle's.

use std::collections::BTreeMap;

use terrace_codec::Encoding;
use terrace_cost::{Expected, Objective};
use terrace_predict::{Outcome, Predictor, Stream};

use super::planned::Planned;
use super::{Cost, File, Oracle, PIECE_BYTES};

/// The ways in which blocks arrive.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    /// Each block by itself, with all effort that the choice takes.
    Each,
    /// A file is a stream.
    Files,
    /// Whole files repeat until there are 16 MiB.
    Long,
    /// Whole files repeat until there are 16 MiB, and the store's planner chooses.
    Planned,
}

/// The minimum size of a long stream.
pub(super) const LONG_STREAM_BYTES: usize = 16 << 20;

/// The costs of one kind of data.
#[derive(Clone, Copy, Default)]
struct Sum {
    best: f64,
    ours: f64,
    effort: f64,
    transfer: f64,
}

/// The results of choices, by kind of data.
#[derive(Default)]
pub struct Outcomes {
    kinds: BTreeMap<String, Sum>,
    /// The relative errors of the expected stored size, encoding time and decoding time.
    pub off: [Vec<f64>; 3],
}

impl Outcomes {
    /// Returns the cost of each kind over the oracle's, less 1, in percent.
    pub fn regrets(&self, with_effort: bool) -> impl Iterator<Item = (&str, f64)> {
        self.kinds.iter().map(move |(kind, sum)| {
            let effort = if with_effort { sum.effort } else { 0.0 };
            (&kind[..], 100.0 * ((sum.ours + effort) / sum.best - 1.0))
        })
    }

    /// Returns the mean of the regrets.
    pub fn mean(&self, with_effort: bool) -> f64 {
        self.regrets(with_effort).map(|(_, regret)| regret).sum::<f64>() / self.kinds.len() as f64
    }

    /// Returns the effort over the time to move the bytes, in percent.
    pub fn share(&self) -> f64 {
        let of = |part: fn(&Sum) -> f64| self.kinds.values().map(part).sum::<f64>();
        100.0 * of(|sum| sum.effort) / of(|sum| sum.transfer)
    }

    fn compare(&mut self, expected: &Expected, bytes: f64, real: &Cost) {
        let parts =
            [(expected.stored, real.stored as f64), (expected.encode, real.encode), (expected.decode, real.decode)];
        for (off, (expected, real)) in self.off.iter_mut().zip(parts) {
            if real > 0.0 {
                off.push((expected * bytes / real - 1.0).abs().min(1.0));
            }
        }
    }
}

impl Oracle {
    /// Calls `each` for each block of `pieces` pieces, with the costs of every encoding. Files repeat until there are
    /// `least` bytes.
    fn blocks(&self, pieces: usize, least: usize, mut each: impl FnMut(&File, usize, &[u8], Vec<Cost>)) {
        for (file, costs) in self.files.iter().zip(&self.table.costs) {
            let times = least.div_ceil(file.bytes.len().max(1)).max(1);
            let mut number = 0;
            for _ in 0..times {
                for (block, costs) in file.bytes.chunks(pieces * PIECE_BYTES).zip(costs.chunks(pieces)) {
                    each(file, number, block, self.together(costs));
                    number += 1;
                }
            }
        }
    }

    /// Adds up the costs of each encoding over pieces.
    fn together(&self, pieces: &[Vec<Cost>]) -> Vec<Cost> {
        let sum = |at: usize| pieces.iter().map(|piece| piece[at]).fold(Cost::default(), |a, b| a + b);
        (0..self.table.encodings.len()).map(sum).collect()
    }

    /// Returns the lowest possible cost of a block of these pieces.
    pub(super) fn least(&self, objective: &Objective, bytes: usize, pieces: &[Vec<Cost>]) -> f64 {
        least(objective, bytes, &self.together(pieces))
    }

    /// Finds the single encoding with the lowest mean regret, and its regret.
    pub fn fixed(&self, pieces: usize, objective: &Objective) -> (Encoding, f64) {
        let mut all: Vec<Outcomes> = self.table.encodings.iter().map(|_| Outcomes::default()).collect();
        self.blocks(pieces, 0, |file, _, block, costs| {
            let best = least(objective, block.len(), &costs);
            for (outcomes, cost) in all.iter_mut().zip(&costs) {
                let sum = outcomes.kinds.entry(file.kind.clone()).or_default();
                sum.best += best;
                sum.ours += total(objective, block.len(), cost);
            }
        });
        let means = all.iter().map(|outcomes| outcomes.mean(false));
        let best = self.table.encodings.iter().zip(means).min_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or((Encoding::NONE, 0.0), |(encoding, regret)| (*encoding, regret))
    }

    /// Returns the costs of our choices. The predictor is not told the names of files.
    pub fn ours(&self, pieces: usize, objective: &Objective, mode: Mode) -> Outcomes {
        let long = if matches!(mode, Mode::Long | Mode::Planned) { LONG_STREAM_BYTES } else { 0 };
        let mut planned = Planned::new(objective);
        let (mut predictor, mut stream, mut outcomes) = (Predictor::default(), Stream::new(), Outcomes::default());
        self.blocks(pieces, long, |file, number, block, costs| {
            let length = match mode {
                Mode::Each => u64::MAX,
                Mode::Files => file.bytes.len() as u64,
                Mode::Long | Mode::Planned => LONG_STREAM_BYTES.next_multiple_of(file.bytes.len()) as u64,
            };
            if mode == Mode::Each || number == 0 {
                stream = Stream::new().with_length(length);
                planned.begin();
            }
            let before = stream.spent();
            let choice = match mode {
                Mode::Planned => planned.choose(&mut predictor, &mut stream, block, objective),
                _ => predictor.choose(&mut stream, block, objective),
            };
            let spent = stream.spent() - before;
            let at = self.table.encodings.iter().position(|e| *e == choice.encoding).unwrap_or(0);
            let cost = costs[at];
            outcomes.compare(&choice.expected, block.len() as f64, &cost);
            let outcome = Outcome {
                bytes: block.len(),
                stored: Some(cost.stored),
                encode: Some(cost.encode),
                decode: Some(cost.decode),
            };
            predictor.feedback(&mut stream, &choice, &outcome);
            let sum = outcomes.kinds.entry(file.kind.clone()).or_default();
            sum.best += least(objective, block.len(), &costs);
            sum.ours += total(objective, block.len(), &cost);
            sum.effort += spent;
            sum.transfer += objective.transfer(block.len() as u64);
        });
        outcomes
    }
}

fn least(objective: &Objective, bytes: usize, costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| total(objective, bytes, cost)).fold(f64::INFINITY, f64::min)
}

pub(super) fn total(objective: &Objective, bytes: usize, cost: &Cost) -> f64 {
    let each = 1.0 / bytes as f64;
    let stored = cost.stored as f64 * each;
    objective.cost(&Expected { stored, encode: cost.encode * each, decode: cost.decode * each }, bytes)
}
