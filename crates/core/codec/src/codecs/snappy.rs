//! Snappy blocks.

use snap::raw::{Decoder, Encoder, max_compress_len};

use super::{Result, text};

pub fn encode(source: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.resize(max_compress_len(source.len()), 0);
    let length = Encoder::new().compress(source, out).map_err(text)?;
    out.truncate(length);
    Ok(())
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    Decoder::new().decompress(stored, target).map_err(text)
}
