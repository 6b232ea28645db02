//! Zstandard frames without magic number, content size and checksum: what those say stands in our own header.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, DParameter, FrameFormat, compress_bound};

use super::{Result, text};

/// Contexts that are used again; a compressor is kept for the level used last.
#[derive(Default)]
pub struct Contexts {
    compressor: Option<(i8, Compressor<'static>)>,
    decompressor: Option<Decompressor<'static>>,
}

impl Contexts {
    pub fn encode(&mut self, source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
        let compressor = match &mut self.compressor {
            Some((at, compressor)) if *at == level => compressor,
            slot => &mut slot.insert((level, compressor(i32::from(level))?)).1,
        };
        run(compressor, source, out)
    }

    pub fn decode(&mut self, stored: &[u8], target: &mut [u8]) -> Result<usize> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            slot => {
                let mut new = Decompressor::new().map_err(text)?;
                new.set_parameter(DParameter::Format(FrameFormat::Magicless)).map_err(text)?;
                slot.insert(new)
            }
        };
        decompressor.decompress_to_buffer(stored, target).map_err(text)
    }
}

/// A compressor of our kind of frames.
pub fn compressor(level: i32) -> Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level).map_err(text)?;
    compressor.set_parameter(CParameter::Format(FrameFormat::Magicless)).map_err(text)?;
    compressor.set_parameter(CParameter::ContentSizeFlag(false)).map_err(text)?;
    Ok(compressor)
}

/// Appends one frame.
pub fn run(compressor: &mut Compressor<'static>, source: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.reserve(compress_bound(source.len()));
    compressor.compress_to_buffer(source, out).map_err(text)?;
    Ok(())
}
