//! PPMd variant H. The level is the order, on which decoding depends too.

use std::io::{Read, Write};

use ppmd_rust::{PPMD7_MIN_ORDER, Ppmd7Decoder, Ppmd7Encoder};

use super::{Result, text};

/// The size of the model in bytes. It is part of the format: the encoder and the decoder must agree.
const MODEL_MEMORY_BYTES: u32 = 8 << 20;

pub fn encode(source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
    let mut encoder = Ppmd7Encoder::new(out, order(level), MODEL_MEMORY_BYTES).map_err(text)?;
    encoder.write_all(source).map_err(text)?;
    encoder.finish(true).map_err(text)?;
    Ok(())
}

pub fn decode(stored: &[u8], level: i8, target: &mut [u8]) -> Result<usize> {
    let mut decoder = Ppmd7Decoder::new(stored, order(level), MODEL_MEMORY_BYTES).map_err(text)?;
    decoder.read_exact(target).map_err(text)?;
    match decoder.read(&mut [0]).map_err(text)? {
        0 => Ok(target.len()),
        _ => Err("there is more".to_owned()),
    }
}

fn order(level: i8) -> u32 {
    u32::from(level.clamp(0, 32).unsigned_abs()).max(PPMD7_MIN_ORDER)
}
