//! Huffman coding only: Zstandard frames whose matches are so dear that only literals are left. They decode as others.

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch};

use super::{Result, text, zstd as frames};

/// The lowest level there is.
const LITERALS: i32 = -131_072;

/// A compressor that is used again.
#[derive(Default)]
pub struct Context(Option<Compressor<'static>>);

impl Context {
    pub fn encode(&mut self, source: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let compressor = match &mut self.0 {
            Some(compressor) => compressor,
            slot => {
                let mut new = frames::compressor(LITERALS)?;
                new.set_parameter(CParameter::LiteralCompressionMode(ParamSwitch::Enable)).map_err(text)?;
                slot.insert(new)
            }
        };
        frames::run(compressor, source, out)
    }
}
