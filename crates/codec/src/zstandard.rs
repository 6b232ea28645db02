//! Zstandard frames, by its own library.

use zstd::bulk::{Compressor, Decompressor};

/// Contexts that are used again; a compressor is kept for the level used last.
#[derive(Default)]
pub struct Contexts {
    compressor: Option<(i8, Compressor<'static>)>,
    decompressor: Option<Decompressor<'static>>,
}

impl Contexts {
    pub fn encode(&mut self, source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<(), String> {
        let compressor = match &mut self.compressor {
            Some((at, compressor)) if *at == level => compressor,
            slot => {
                let new = Compressor::new(i32::from(level)).map_err(|e| e.to_string())?;
                &mut slot.insert((level, new)).1
            }
        };
        out.reserve(zstd::zstd_safe::compress_bound(source.len()));
        compressor.compress_to_buffer(source, out).map_err(|e| e.to_string())?;
        Ok(())
    }

    pub fn decode(&mut self, stored: &[u8], target: &mut [u8]) -> Result<usize, String> {
        let decompressor = match &mut self.decompressor {
            Some(decompressor) => decompressor,
            slot => slot.insert(Decompressor::new().map_err(|e| e.to_string())?),
        };
        decompressor.decompress_to_buffer(stored, target).map_err(|e| e.to_string())
    }
}
