//! LZ4 blocks, by `lz4_flex`.

use lz4_flex::block;

pub fn encode(source: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    out.resize(block::get_maximum_output_size(source.len()), 0);
    let length = block::compress_into(source, out).map_err(|e| e.to_string())?;
    out.truncate(length);
    Ok(())
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize, String> {
    block::decompress_into(stored, target).map_err(|e| e.to_string())
}
