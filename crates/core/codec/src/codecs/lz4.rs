//! LZ4 blocks, by the reference library.

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer, decompress_to_buffer};

use super::{OutputBuffer, Result, text};

pub fn encode(source: &[u8], level: i8, out: &mut Vec<u8>, buffer: &mut OutputBuffer) -> Result<()> {
    run(source, CompressionMode::FAST(i32::from(level)), out, buffer)
}

pub fn encode_high(source: &[u8], level: i8, out: &mut Vec<u8>, buffer: &mut OutputBuffer) -> Result<()> {
    run(source, CompressionMode::HIGHCOMPRESSION(i32::from(level)), out, buffer)
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    let length = i32::try_from(target.len()).map_err(text)?;
    decompress_to_buffer(stored, Some(length), target).map_err(text)
}

fn run(source: &[u8], mode: CompressionMode, out: &mut Vec<u8>, buffer: &mut OutputBuffer) -> Result<()> {
    let bound = compress_bound(source.len()).map_err(text)?;
    buffer.append(bound, out, |target| compress_to_buffer(source, Some(mode), false, target).map_err(text))
}
