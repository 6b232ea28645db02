//! Claim C8 (HCompress IV-C): codecs behind one interface.

use anyhow::{Result, ensure};
use terrace_codec::{ALL_ENCODINGS, CodecId, RARE_ENCODINGS, Scratch, decode, encode};

use crate::place::smooth_floats;
use crate::row::{Better, Row};

/// The paper's pool has 11 entries: zlib, bzip2, lzma, lzo, pithy, snappy, quicklz, lz4, brotli, bsc, and none.
const PAPER_CODEC_COUNT: f64 = 11.0;

pub fn run() -> Result<Vec<Row>> {
    let (raw, mut out, mut scratch) = (smooth_floats(1 << 20, 5), Vec::new(), Scratch::default());
    let mut back = vec![0; raw.len()];
    let mut codecs: Vec<CodecId> = Vec::new();
    for encoding in ALL_ENCODINGS.iter().chain(RARE_ENCODINGS) {
        if encode(*encoding, &raw, &mut out, &mut scratch)?.is_some() {
            decode(*encoding, &out, &mut back, &mut scratch)?;
            ensure!(back == raw, "{encoding} gives back other bytes");
        }
        if !codecs.contains(&encoding.codec) {
            codecs.push(encoding.codec);
        }
    }
    let names: Vec<String> = codecs.iter().map(|codec| format!("{codec:?}").to_lowercase()).collect();
    let row = Row::new("C8", "codecs behind one interface, none included", codecs.len() as f64, "codecs");
    Ok(vec![row.beside(PAPER_CODEC_COUNT, Better::Higher).goal(PAPER_CODEC_COUNT, Better::Higher).details(format!(
        "{} encodings of them, each encodes and decodes 1 MiB here: {}; docs/codecs.md says what serves for pithy and bsc",
        ALL_ENCODINGS.len() + RARE_ENCODINGS.len(),
        names.join(", ")
    ))])
}
