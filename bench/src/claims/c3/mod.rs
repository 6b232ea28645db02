//! Claim C3 (HCompress Fig. 4b, IV-D): how well costs are predicted, and how many feedback events per second the model
//! accepts.

mod paper;

use std::time::Instant;

use anyhow::Result;
use terrace_codec::Encoding;
use terrace_cost::{Expected, Objective, TargetRates};
use terrace_predict::analyze::Analysis;
use terrace_predict::{Outcome, Predictor, Stream};

use super::regret::objectives;
use crate::oracle::{Cost, Mode, Oracle, PIECE_BYTES};
use crate::row::{Better, PageRow, Row};

/// The model must be stable after this many updates.
const UPDATE_COUNT: u32 = 10_000_000;
/// The fits leave out shorter pieces, which are headers and ends of files.
const MIN_PIECE_BYTES: usize = 16 << 10;
/// The fits use at most this many pieces of a file.
const MAX_PIECES_PER_FILE: usize = 8;
/// The three parts of a prediction.
const PREDICTED_PARTS: [&str; 3] = ["ratio", "compression speed", "decompression speed"];

pub const PAGE_ROWS: &[PageRow] = &[PageRow::real(
    "C3",
    "accuracy of the ratio, of what was chosen",
    "Accuracy of the predicted ratio, beside HCompress",
)];

pub fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if let Some(oracle) = Oracle::get()? {
        rows.extend(accuracy(oracle));
        rows.extend(fits(oracle)?);
    }
    rows.push(updates());
    Ok(rows)
}

/// Measures how accurate the predictions for the chosen encodings are, on streams of 16 MiB.
fn accuracy(oracle: &Oracle) -> Vec<Row> {
    let all: Vec<_> = objectives().iter().map(|(_, objective)| oracle.ours(4, objective, Mode::Long)).collect();
    let goals = [0.97, 0.90, 0.90];
    let rows = PREDICTED_PARTS.iter().zip(goals).enumerate().map(|(part, (name, goal))| {
        let off: Vec<f64> = all.iter().flat_map(|outcomes| outcomes.off[part].iter().copied()).collect();
        let accuracy = 1.0 - off.iter().sum::<f64>() / off.len().max(1) as f64;
        Row::new("C3", format!("accuracy of the {name}, of what was chosen"), accuracy, "")
            .beside(0.9554, Better::Higher)
            .goal(goal, Better::Higher)
            .details(format!("1 - mean relative error over {} choices; real files as streams of 16 MiB, 13 objectives, every outcome fed back", off.len()))
    });
    rows.collect()
}

/// A piece of a file with the expected and the measured costs of each encoding.
struct Fitted {
    piece: usize,
    attributes: Analysis,
    encoding: Encoding,
    expected: [f64; 3],
    real: [Option<f64>; 3],
}

/// Measures how much of the variance of the logarithms the predictions for all encodings explain.
fn fits(oracle: &Oracle) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let goals = [0.93, 0.90, 0.90];
    for large in [true, false] {
        let fitted = fitted(oracle, large)?;
        let probe = if large { "64 KiB" } else { "8 KiB" };
        for (part, (name, goal)) in PREDICTED_PARTS.iter().zip(goals).enumerate() {
            let pairs = fitted.iter().filter_map(|f| Some((f.expected[part], f.real[part]?)));
            let row = Row::new(
                "C3",
                format!("R2 of the logarithm of the {name}, every encoding, probes of {probe}"),
                r2(pairs),
                "",
            );
            let row = row.beside(0.83, Better::Higher);
            let row = if large { row.goal(goal, Better::Higher) } else { row };
            rows.push(row.details(format!(
                "{} pieces and encodings; beside: the paper's on real data before feedback",
                fitted.len()
            )));
        }
        if large {
            for (part, name) in PREDICTED_PARTS.iter().enumerate() {
                let r2 = r2(paper::predicted(&fitted, part).into_iter());
                let row =
                    Row::new("C3", format!("the same by the paper's own regression on its inputs, {name}"), r2, "");
                rows.push(row.details("data type, format, distribution and library; ten folds of pieces, which share files: kinder than ours"));
            }
        }
    }
    Ok(rows)
}

fn fitted(oracle: &Oracle, large: bool) -> Result<Vec<Fitted>> {
    let mut predictor = Predictor::default();
    let (mut fitted, mut pieces) = (Vec::new(), 0);
    for (file, costs) in oracle.files.iter().zip(&oracle.table.costs) {
        for (piece, costs) in file
            .bytes
            .chunks(PIECE_BYTES)
            .zip(costs)
            .take(MAX_PIECES_PER_FILE)
            .filter(|(piece, _)| piece.len() >= MIN_PIECE_BYTES)
        {
            let attributes = Analysis::of(piece, None)?;
            pieces += 1;
            for choice in predictor.survey(piece, None, large)? {
                let at = oracle.table.encodings.iter().position(|e| *e == choice.encoding);
                let Some(cost) = at.map(|at| costs[at]).filter(|_| choice.encoding != Encoding::NONE) else { continue };
                let Expected { stored, encode, decode } = choice.expected;
                fitted.push(Fitted {
                    piece: pieces,
                    attributes,
                    encoding: choice.encoding,
                    expected: [stored, encode, decode],
                    real: real(&cost, piece.len()),
                });
            }
        }
    }
    Ok(fitted)
}

fn real(cost: &Cost, bytes: usize) -> [Option<f64>; 3] {
    let each = |seconds: f64| (seconds > 0.0).then_some(seconds / bytes as f64);
    [Some(cost.stored as f64 / bytes as f64), each(cost.encode), each(cost.decode)]
}

/// Returns the share of the variance of logarithms that predictions explain. Pairs whose value is expected to be 0 are
/// left out.
fn r2(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let logs: Vec<(f64, f64)> = pairs.filter(|(p, r)| *p > 0.0 && *r > 0.0).map(|(p, r)| (p.ln(), r.ln())).collect();
    let mean = logs.iter().map(|(_, real)| real).sum::<f64>() / logs.len().max(1) as f64;
    let left: f64 = logs.iter().map(|(predicted, real)| (predicted - real).powi(2)).sum();
    let all: f64 = logs.iter().map(|(_, real)| (real - mean).powi(2)).sum();
    1.0 - left / all
}

/// Measures feedback events per second of one thread.
fn updates() -> Row {
    let mut predictor = Predictor::default();
    let mut stream = Stream::new().with_length(u64::MAX);
    let block: Vec<u8> = (0..PIECE_BYTES / 8).flat_map(|i| ((i as f64 / 900.0).sin()).to_le_bytes()).collect();
    let objective = Objective::time(TargetRates::from_speeds(60e6, 120e6, 0.0), 1.0);
    let choice = predictor.choose(&mut stream, &block, &objective);
    let start = Instant::now();
    for number in 0..UPDATE_COUNT {
        let noise = 1.0 + f64::from(number % 97) * 1e-3;
        let each = |share: f64| share * noise * block.len() as f64;
        let outcome = Outcome {
            bytes: block.len(),
            stored: Some(each(choice.expected.stored) as usize),
            encode: Some(each(choice.expected.encode)),
            decode: Some(each(choice.expected.decode)),
        };
        predictor.feedback(&mut stream, &choice, &outcome);
    }
    let rate = f64::from(UPDATE_COUNT) / start.elapsed().as_secs_f64();
    let now = predictor.choose(&mut stream, &block, &objective).expected;
    let stable = [now.stored, now.encode, now.decode].iter().all(|x| x.is_finite());
    Row::new("C3", "feedback events taken in", rate, "1/s")
        .beside(20e3, Better::Higher)
        .goal(1e6, Better::Higher)
        .details(format!(
            "one thread, {UPDATE_COUNT} events; predictions after them: {}",
            if stable { "sane" } else { "NOT FINITE" }
        ))
}
