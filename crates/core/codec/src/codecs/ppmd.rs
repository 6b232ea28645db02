//! PPMd variant H. The level is the order, on which decoding depends too.

use std::io::{Read, Write};

use ppmd_rust::{PPMD7_MIN_ORDER, Ppmd7Decoder, Ppmd7Encoder};

use super::{Result, text};

/// The size of the largest model in bytes. It is part of the format: the encoder and the decoder must agree.
pub const MAX_MODEL_BYTES: u32 = 8 << 20;
/// The size of the smallest model in bytes. It is part of the format.
const MIN_MODEL_BYTES: u32 = 64 << 10;
/// How many bytes of a model each byte of a block adds. It is part of the format.
const MODEL_BYTES_PER_BYTE: u32 = 64;

/// The size of a model in bytes for a block of `len` bytes. The library fills the whole model with zeros before the first byte, which takes
/// longer than to encode a short block if the model is large.
pub fn model_bytes(len: usize) -> u32 {
    let wanted = u32::try_from(len).unwrap_or(u32::MAX).saturating_mul(MODEL_BYTES_PER_BYTE);
    wanted.clamp(MIN_MODEL_BYTES, MAX_MODEL_BYTES).next_power_of_two()
}

pub fn encode(source: &[u8], level: i8, model_bytes: u32, out: &mut Vec<u8>) -> Result<()> {
    let mut encoder = Ppmd7Encoder::new(out, order(level), model_bytes).map_err(text)?;
    encoder.write_all(source).map_err(text)?;
    encoder.finish(true).map_err(text)?;
    Ok(())
}

pub fn decode(stored: &[u8], level: i8, model_bytes: u32, target: &mut [u8]) -> Result<usize> {
    let mut decoder = Ppmd7Decoder::new(stored, order(level), model_bytes).map_err(text)?;
    decoder.read_exact(target).map_err(text)?;
    match decoder.read(&mut [0]).map_err(text)? {
        0 => Ok(target.len()),
        _ => Err("there is more".to_owned()),
    }
}

fn order(level: i8) -> u32 {
    u32::from(level.clamp(0, 32).unsigned_abs()).max(PPMD7_MIN_ORDER)
}
