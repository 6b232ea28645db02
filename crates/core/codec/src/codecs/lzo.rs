//! LZO1X, by lzokay: its compressor is slow.

use super::Result;

pub fn encode(source: &[u8], out: &mut Vec<u8>) -> Result<()> {
    *out = lzokay::compress::compress(source).map_err(|e| format!("{e:?}"))?;
    Ok(())
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    lzokay::decompress::decompress(stored, target).map_err(|e| format!("{e:?}"))
}
