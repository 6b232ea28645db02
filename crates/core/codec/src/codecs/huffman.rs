//! Huffman coding only: Zstandard frames at a level at which matches are so expensive that only literals remain. They
//! decode like other frames.

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch};

use super::{Result, text, zstd as frames};

/// The lowest Zstandard level.
const HUFFMAN_ONLY_LEVEL: i32 = -131_072;

/// A reusable compressor.
#[derive(Default)]
pub struct Context(Option<Compressor<'static>>);

impl Context {
    pub fn encode(&mut self, source: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let compressor = match &mut self.0 {
            Some(compressor) => compressor,
            slot => {
                let mut new = frames::compressor(HUFFMAN_ONLY_LEVEL)?;
                new.set_parameter(CParameter::LiteralCompressionMode(ParamSwitch::Enable)).map_err(text)?;
                slot.insert(new)
            }
        };
        frames::run(compressor, source, out)
    }
}
