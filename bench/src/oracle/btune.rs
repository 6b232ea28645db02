//! Blosc2's BTune on the same streams, in a process of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use terrace_cost::Objective;

use super::contest::{LONG_STREAM_BYTES, total};
use super::{Cost, Oracle, PIECE_BYTES};

/// `make peers` installs BTune here.
const PROGRAM_FOLDER: &str = "target/peers/btune/bin";
/// BTune takes the width of elements and the value of ratio against speed as settings.
const ELEMENT_WIDTHS_BYTES: [u32; 3] = [1, 4, 8];
const RATIO_TRADEOFFS: [f64; 3] = [0.0, 0.5, 1.0];

/// The results of one setting for each stream: its length, and its total cost.
pub type Streams = Vec<(usize, Cost)>;

impl Oracle {
    /// Runs each of BTune's settings on files that repeat until there are 16 MiB. Returns nothing, and prints why, if
    /// BTune is missing.
    pub fn btune(&self) -> Result<Vec<Streams>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let programs = root.join(PROGRAM_FOLDER);
        if !programs.exists() {
            eprintln!("skipped: Blosc2's BTune is not installed; `make peers` installs it");
            return Ok(Vec::new());
        }
        let folder = tempfile::tempdir()?;
        let mut names = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            names.push(folder.path().join(number.to_string()));
            std::fs::write(&names[number], &file.bytes)?;
        }
        // BTune finds itself by the `python` in its path.
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let run = |width: u32, tradeoff: f64| -> Result<Streams> {
            let mut command = Command::new(programs.join("python"));
            command.env("PATH", &path).arg("-B").arg(root.join("bench/peers/btune.py"));
            command.args([width.to_string(), tradeoff.to_string(), LONG_STREAM_BYTES.to_string()]).args(&names);
            let output = command.output().context("starting Blosc2's BTune")?;
            ensure!(output.status.success(), "BTune: {}", String::from_utf8_lossy(&output.stderr));
            let streams: Vec<(usize, usize, f64, f64)> = serde_json::from_slice(&output.stdout)?;
            let cost = |(length, stored, encode, decode)| (length, Cost { stored, encode, decode });
            Ok(streams.into_iter().map(cost).collect())
        };
        ELEMENT_WIDTHS_BYTES.iter().flat_map(|width| RATIO_TRADEOFFS.map(|tradeoff| run(*width, tradeoff))).collect()
    }

    /// Returns the mean regret of these streams.
    pub fn regret_of(&self, streams: &Streams, pieces: usize, objective: &Objective) -> f64 {
        let mut kinds = std::collections::BTreeMap::<&str, (f64, f64)>::new();
        for ((file, costs), (length, cost)) in self.files.iter().zip(&self.table.costs).zip(streams) {
            let block = |(bytes, costs): (&[u8], &[Vec<Cost>])| self.least(objective, bytes.len(), costs);
            let times = length / file.bytes.len().max(1);
            let best: f64 = file.bytes.chunks(pieces * PIECE_BYTES).zip(costs.chunks(pieces)).map(block).sum();
            let sum = kinds.entry(&file.kind).or_default();
            sum.0 += best * times as f64;
            sum.1 += total(objective, *length, cost);
        }
        let regrets = kinds.values().map(|(best, theirs)| 100.0 * (theirs / best - 1.0));
        regrets.sum::<f64>() / kinds.len() as f64
    }
}
