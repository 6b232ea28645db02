//! Snappy blocks.

use snap::raw::{Decoder, Encoder, max_compress_len};

use super::{OutputBuffer, Result, text};

pub fn encode(source: &[u8], out: &mut Vec<u8>, buffer: &mut OutputBuffer) -> Result<()> {
    buffer.append(max_compress_len(source.len()), out, |target| Encoder::new().compress(source, target).map_err(text))
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    Decoder::new().decompress(stored, target).map_err(text)
}
