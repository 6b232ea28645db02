//! Raw deflate, by libdeflate.

use libdeflater::{CompressionLvl, Compressor, Decompressor};

use super::{OutputBuffer, Result, text};

/// Reusable contexts; the compressor is for the level used last.
#[derive(Default)]
pub struct Contexts {
    compressor: Option<(i8, Compressor)>,
    decompressor: Option<Decompressor>,
}

impl Contexts {
    pub fn encode(&mut self, source: &[u8], level: i8, out: &mut Vec<u8>, buffer: &mut OutputBuffer) -> Result<()> {
        let compressor = match &mut self.compressor {
            Some((at, compressor)) if *at == level => compressor,
            slot => {
                let lvl = CompressionLvl::new(i32::from(level).clamp(0, 12)).map_err(|e| format!("{e:?}"))?;
                &mut slot.insert((level, Compressor::new(lvl))).1
            }
        };
        let bound = compressor.deflate_compress_bound(source.len());
        buffer.append(bound, out, |target| compressor.deflate_compress(source, target).map_err(text))
    }

    pub fn decode(&mut self, stored: &[u8], target: &mut [u8]) -> Result<usize> {
        let decompressor = self.decompressor.get_or_insert_with(Decompressor::new);
        decompressor.deflate_decompress(stored, target).map_err(text)
    }
}
