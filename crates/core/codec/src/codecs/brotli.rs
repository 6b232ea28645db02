//! Brotli. A window has at most 16 MiB, which bounds what a decoder allocates.

use std::io::Read;

use brotli::enc::BrotliEncoderParams;

use super::{Result, text};

/// The size of the decoder's input buffer in bytes.
const DECODER_BUFFER_BYTES: usize = 4096;

pub fn encode(source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
    let params = BrotliEncoderParams {
        quality: i32::from(level).clamp(0, 11),
        size_hint: source.len(),
        ..BrotliEncoderParams::default()
    };
    brotli::BrotliCompress(&mut &source[..], out, &params).map_err(text)?;
    Ok(())
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    let mut reader = brotli::Decompressor::new(stored, DECODER_BUFFER_BYTES);
    reader.read_exact(target).map_err(text)?;
    match reader.read(&mut [0]).map_err(text)? {
        0 => Ok(target.len()),
        _ => Err("there is more".to_owned()),
    }
}
