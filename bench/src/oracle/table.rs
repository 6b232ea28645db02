//! The oracle's table: the real cost of every encoding on every piece. It is kept in a file because measuring takes
//! minutes.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Result, ensure};
use terrace_codec::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS, Scratch, decode, encode};
use terrace_system::clock::thread_seconds;

use super::{File, PIECE_BYTES};

/// Slower runs are done once, others three times.
const SLOW_RUN_SECONDS: f64 = 0.006;

/// The cost of an encoding on some bytes.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    /// The stored bytes.
    pub stored: usize,
    /// The seconds to encode.
    pub encode: f64,
    /// The seconds to decode.
    pub decode: f64,
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        let (encode, decode) = (self.encode + other.encode, self.decode + other.decode);
        Cost { stored: self.stored + other.stored, encode, decode }
    }
}

/// Costs by encoding, for each piece of each file.
pub struct Table {
    /// The encodings, in the order of the costs.
    pub encodings: Vec<Encoding>,
    /// The costs by file, piece and encoding.
    pub costs: Vec<Vec<Vec<Cost>>>,
}

impl Table {
    /// Reads the table from `path` if that exists; otherwise measures it and writes it there.
    pub fn of(files: &[File], path: Option<&Path>) -> Result<Table> {
        let encodings: Vec<Encoding> = ALL_ENCODINGS.iter().chain(RARE_ENCODINGS).copied().collect();
        let known = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        let known: HashMap<&str, &str> = known.lines().filter_map(|line| line.split_once('\t')).collect();
        let mut kept = String::new();
        let mut costs = Vec::new();
        for file in files {
            let mut of_file = Vec::new();
            for (number, piece) in file.bytes.chunks(PIECE_BYTES).enumerate() {
                let mut of_piece = Vec::new();
                let mut scratch = Scratch::default();
                for encoding in &encodings {
                    let key = format!("{} {number} {encoding}", file.name);
                    let cost = match known.get(&key[..]) {
                        Some(text) => parse(text)?,
                        None => measure(*encoding, piece, &mut scratch)?,
                    };
                    writeln!(kept, "{key}\t{} {:e} {:e}", cost.stored, cost.encode, cost.decode)?;
                    of_piece.push(cost);
                }
                of_file.push(of_piece);
            }
            eprintln!("{} {}: {} pieces", file.kind, file.name, of_file.len());
            costs.push(of_file);
        }
        if let Some(path) = path {
            std::fs::write(path, kept)?;
        }
        Ok(Table { encodings, costs })
    }
}

fn parse(text: &str) -> Result<Cost> {
    let mut parts = text.split(' ');
    let mut next = || parts.next().unwrap_or_default();
    Ok(Cost { stored: next().parse()?, encode: next().parse()?, decode: next().parse()? })
}

/// Encodes and decodes several times and returns the best times. The decoded bytes are compared.
pub fn measure(encoding: Encoding, raw: &[u8], scratch: &mut Scratch) -> Result<Cost> {
    if encoding == Encoding::NONE {
        return Ok(Cost { stored: raw.len(), encode: 0.0, decode: 0.0 });
    }
    let mut best = Cost { stored: raw.len(), encode: f64::INFINITY, decode: f64::INFINITY };
    let (mut out, mut back) = (Vec::new(), vec![0; raw.len()]);
    for _ in 0..3 {
        let start = thread_seconds();
        let stored = encode(encoding, raw, &mut out, scratch)?;
        best.encode = best.encode.min(thread_seconds() - start);
        let Some(stored) = stored else {
            best.decode = 0.0;
            continue;
        };
        best.stored = stored;
        let start = thread_seconds();
        decode(encoding, &out, &mut back, scratch)?;
        best.decode = best.decode.min(thread_seconds() - start);
        ensure!(back == raw, "{encoding} gives back other bytes");
        if best.encode + best.decode > SLOW_RUN_SECONDS {
            break;
        }
    }
    Ok(best)
}
