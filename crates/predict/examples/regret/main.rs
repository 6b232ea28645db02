//! Regret: what choices cost over those of an oracle that really runs every encoding, on the files in the folders of
//! `TERRACE_DATA`: `cargo run --release --example regret [TABLE]`. The oracle's table is kept in the file TABLE.
//!
//! Regret is the total cost of a kind of data over the oracle's, less 1; means are over kinds.

mod streams;
mod table;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use streams::File;
use table::{Cost, Table};
use terrace_codec::Encoding;
use terrace_predict::{Expected, Objective, Outcome, Predictor, Stream, Tier, Weights};

/// Bytes that are encoded at a time.
pub const PIECE: usize = 256 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(root) = std::env::var_os("TERRACE_DATA") else {
        println!("skipped: TERRACE_DATA names no folder of files");
        return Ok(());
    };
    let files = streams::files(Path::new(&root))?;
    let path = std::env::args_os().nth(1);
    let table = Table::of(&files, path.as_deref().map(Path::new))?;
    for pieces in [1, 4] {
        let contest = Contest { files: &files, table: &table, pieces };
        contest.print(&objectives());
    }
    Ok(())
}

fn objectives() -> Vec<(String, Objective)> {
    let mut objectives = Vec::new();
    for (write, read) in [(1.0, 1.0), (60.0, 120.0), (500.0, 500.0), (2500.0, 2500.0)] {
        for reads in [0.0, 1.0, 10.0] {
            let tier = Tier { write: write * 1e6, read: read * 1e6, latency: 0.0 };
            objectives.push((format!("{write}/{read} N={reads}"), Objective::time(tier, reads)));
        }
    }
    let weights = Weights { encode: 0.0, decode: 0.0, stored: 1.0 };
    let tier = Tier { write: 1e6, read: 1e6, latency: 0.0 };
    objectives.push(("size".to_owned(), Objective { weights, tier, reads: 0.0 }));
    objectives
}

fn print_row(name: &str, fixed: &str, row: &[f64; 8]) {
    let [of_fixed, each, files, effort, share, long, long_effort, long_share] = row;
    println!(
        "{name:14} {fixed:>22} {of_fixed:8.1} {each:7.1} {files:7.1} {effort:7.1} {share:5.2}% {long:11.1} {long_effort:7.1} {long_share:5.2}%"
    );
}

/// How blocks come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Each for itself, with all the effort that it takes.
    Each,
    /// A file is a stream.
    Files,
    /// Files are repeated, whole, until there are 16 MiB.
    Long,
}

const MODES: [Mode; 3] = [Mode::Each, Mode::Files, Mode::Long];
/// Bytes of a long stream, at least.
const LONG: usize = 16 << 20;

#[derive(Clone, Copy, Default)]
struct Sum {
    best: f64,
    ours: f64,
    effort: f64,
    transfer: f64,
}

impl Sum {
    fn regret(&self, with_effort: bool) -> f64 {
        100.0 * ((self.ours + if with_effort { self.effort } else { 0.0 }) / self.best - 1.0)
    }
}

#[derive(Default)]
struct Sums {
    kinds: BTreeMap<String, Sum>,
}

impl Sums {
    fn mean(&self, with_effort: bool) -> f64 {
        self.kinds.values().map(|sum| sum.regret(with_effort)).sum::<f64>() / self.kinds.len() as f64
    }

    /// Effort over transfer, in %.
    fn share(&self) -> f64 {
        let of = |part: fn(&Sum) -> f64| self.kinds.values().map(part).sum::<f64>();
        100.0 * of(|sum| sum.effort) / of(|sum| sum.transfer)
    }
}

/// How far expectations were off, of what was chosen.
#[derive(Default)]
struct Errors {
    which: String,
    stored: Vec<f64>,
    encode: Vec<f64>,
    decode: Vec<f64>,
}

impl Errors {
    fn take(&mut self, expected: &Expected, bytes: f64, real: &Cost) {
        let off = |expected: f64, real: f64| (expected * bytes / real - 1.0).abs().min(1.0);
        self.stored.push(off(expected.stored, real.stored as f64));
        if real.encode > 0.0 {
            self.encode.push(off(expected.encode, real.encode));
        }
        if real.decode > 0.0 {
            self.decode.push(off(expected.decode, real.decode));
        }
    }

    fn print(&self) {
        let accuracy = |off: &[f64]| 1.0 - off.iter().sum::<f64>() / off.len().max(1) as f64;
        let [stored, encode, decode] = [&self.stored, &self.encode, &self.decode].map(|off| accuracy(off));
        println!("accuracy of what was chosen: size {stored:.3}, time to encode {encode:.3}, to decode {decode:.3}");
    }
}

struct Contest<'a> {
    files: &'a [File],
    table: &'a Table,
    /// Pieces in a block.
    pieces: usize,
}

impl Contest<'_> {
    fn print(&self, objectives: &[(String, Objective)]) {
        println!("\nblocks of {} KiB, mean regret over kinds in %", (self.pieces * PIECE) >> 10);
        println!(
            "{:14} {:>31} {:>7} {:>22} {:>26}",
            "", "best fixed", "each", "files: + effort, share", "16 MiB: + effort, share"
        );
        let mut kinds: BTreeMap<String, Vec<[f64; 3]>> = BTreeMap::new();
        let mut means = [0.0; 8];
        let mut errors = [Errors::default(), Errors::default(), Errors::default()];
        for (name, objective) in objectives {
            let (fixed, of_fixed) = self.fixed(objective);
            let mut run = |mode: Mode| {
                let errors = &mut errors[mode as usize];
                errors.which = format!("{mode:?} {} {name}", self.pieces);
                self.ours(objective, mode, errors)
            };
            let (each, files, long) = (run(Mode::Each), run(Mode::Files), run(Mode::Long));
            let mut row = [of_fixed, each.mean(false), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
            for (cells, sums) in row[2..].chunks_mut(3).zip([&files, &long]) {
                cells.copy_from_slice(&[sums.mean(false), sums.mean(true), sums.share()]);
            }
            print_row(name, &fixed.to_string(), &row);
            means.iter_mut().zip(row).for_each(|(mean, r)| *mean += r / objectives.len() as f64);
            for (kind, sum) in &each.kinds {
                let of = |sums: &Sums| sums.kinds.get(kind).map_or(0.0, |sum| sum.regret(false));
                kinds.entry(kind.clone()).or_default().push([sum.regret(false), of(&files), of(&long)]);
            }
        }
        print_row("mean", "", &means);
        for (mode, errors) in errors.iter().enumerate() {
            println!("{:?}, kinds, in the order of the objectives:", MODES[mode]);
            for (kind, regrets) in &kinds {
                let mean = regrets.iter().map(|r| r[mode]).sum::<f64>() / regrets.len() as f64;
                let regrets: Vec<String> = regrets.iter().map(|r| format!("{:5.1}", r[mode])).collect();
                println!("  {kind:14} {mean:5.1}: {}", regrets.join(" "));
            }
            errors.print();
        }
    }

    /// Calls for each block, with what each encoding costs there; files are repeated until there are `least` bytes.
    fn blocks(&self, least: usize, mut each: impl FnMut(&File, usize, &[u8], Vec<Cost>)) {
        let bytes = PIECE * self.pieces;
        for (file, pieces) in self.files.iter().zip(&self.table.costs) {
            let times = least.div_ceil(file.bytes.len().max(1)).max(1);
            let mut number = 0;
            for _ in 0..times {
                for (block, pieces) in file.bytes.chunks(bytes).zip(pieces.chunks(self.pieces)) {
                    let sum = |at: usize| pieces.iter().map(|piece| piece[at]).fold(Cost::default(), |a, b| a + b);
                    each(file, number, block, (0..self.table.encodings.len()).map(sum).collect());
                    number += 1;
                }
            }
        }
    }

    /// The one encoding for all that does best, and its mean regret.
    fn fixed(&self, objective: &Objective) -> (Encoding, f64) {
        let mut all: Vec<Sums> = self.table.encodings.iter().map(|_| Sums::default()).collect();
        self.blocks(0, |file, _, block, costs| {
            let best = least(objective, block.len(), &costs);
            for (sums, cost) in all.iter_mut().zip(&costs) {
                let sum = sums.kinds.entry(file.kind.clone()).or_default();
                sum.best += best;
                sum.ours += total(objective, block.len(), cost);
            }
        });
        let means = all.iter().map(|sums| sums.mean(false));
        let best = self.table.encodings.iter().zip(means).min_by(|a, b| a.1.total_cmp(&b.1));
        best.map_or((Encoding::NONE, 0.0), |(encoding, regret)| (*encoding, regret))
    }

    /// What our choices cost: each block for itself with all the effort it takes, or as streams.
    fn ours(&self, objective: &Objective, mode: Mode, errors: &mut Errors) -> Sums {
        let least_bytes = if mode == Mode::Long { LONG } else { 0 };
        let (mut predictor, mut stream, mut sums) = (Predictor::default(), Stream::new(), Sums::default());
        self.blocks(least_bytes, |file, number, block, costs| {
            let length = match mode {
                Mode::Each => u64::MAX,
                Mode::Files => file.bytes.len() as u64,
                Mode::Long => LONG.next_multiple_of(file.bytes.len()) as u64,
            };
            if mode == Mode::Each || number == 0 {
                stream = Stream::new().with_length(length);
            }
            let before = stream.spent();
            let choice = predictor.choose(&mut stream, block, objective);
            let spent = stream.spent() - before;
            let at = self.table.encodings.iter().position(|e| *e == choice.encoding).unwrap_or(0);
            let cost = costs[at];
            errors.take(&choice.expected, block.len() as f64, &cost);
            let outcome = Outcome {
                bytes: block.len(),
                stored: Some(cost.stored),
                encode: Some(cost.encode),
                decode: Some(cost.decode),
            };
            predictor.feedback(&mut stream, &choice, &outcome);
            if std::env::var("VERBOSE").is_ok_and(|v| v == errors.which) {
                let all = costs.iter().enumerate().map(|(i, c)| (i, total(objective, block.len(), c)));
                let best = all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
                let e = choice.expected;
                let n = block.len() as f64;
                println!(
                    "  {} {number} {} {:.1}% best {} | expected {:.4} {:.0} {:.0} real {:.4} {:.0} {:.0} | {:.0} us",
                    file.name,
                    choice.encoding,
                    100.0 * (total(objective, block.len(), &cost) / best.1 - 1.0),
                    self.table.encodings[best.0],
                    e.stored,
                    1e-6 / e.encode,
                    1e-6 / e.decode,
                    cost.stored as f64 / n,
                    n * 1e-6 / cost.encode,
                    n * 1e-6 / cost.decode,
                    spent * 1e6
                );
            }
            let sum = sums.kinds.entry(file.kind.clone()).or_default();
            sum.best += least(objective, block.len(), &costs);
            sum.ours += total(objective, block.len(), &cost);
            sum.effort += spent;
            sum.transfer += objective.transfer(block.len() as u64);
        });
        sums
    }
}

fn least(objective: &Objective, bytes: usize, costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| total(objective, bytes, cost)).fold(f64::INFINITY, f64::min)
}

fn total(objective: &Objective, bytes: usize, cost: &Cost) -> f64 {
    let each = 1.0 / bytes as f64;
    let stored = cost.stored as f64 * each;
    objective.cost(&Expected { stored, encode: cost.encode * each, decode: cost.decode * each }, bytes)
}
