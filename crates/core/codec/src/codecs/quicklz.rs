//! QuickLZ 1.5, by its re-implementation in safe Rust. There is no level 2.

use quicklz::CompressionLevel;

use super::{Result, text};

/// The maximum source length: the library's tables store positions in 32 bits, minus the space for its header.
const MAX_SOURCE_BYTES: usize = 1 << 31;

pub fn encode(source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(format!("{} bytes are too many for QuickLZ; it takes {MAX_SOURCE_BYTES}", source.len()));
    }
    let level = if level < 3 { CompressionLevel::Lvl1 } else { CompressionLevel::Lvl3 };
    *out = quicklz::compress(source, level);
    Ok(())
}

pub fn decode(mut stored: &[u8], target: &mut [u8]) -> Result<usize> {
    let most = u32::try_from(target.len()).map_err(text)?;
    let raw = quicklz::decompress(&mut stored, most).map_err(text)?;
    target.get_mut(..raw.len()).ok_or("there is more")?.copy_from_slice(&raw);
    Ok(raw.len())
}
