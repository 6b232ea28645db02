//! Zstandard frames without magic number, content size and checksum, because our own header contains that information.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_continue, ZSTD_e_end};
use zstd::zstd_safe::{CParameter, DParameter, FrameFormat, InBuffer, OutBuffer, compress_bound, get_error_name};

use super::{Result, text};

/// The maximum number of cached samplers.
const MAX_SAMPLERS: usize = 6;

/// Reusable contexts: a compressor for the level used last, and samplers for several levels.
#[derive(Default)]
pub struct Contexts {
    compressor: Option<(i8, Compressor<'static>)>,
    samplers: Vec<(i8, u32, Compressor<'static>)>,
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

    /// Encodes a sample with the parameters, including the strategy, that a source of `whole` bytes would get.
    pub fn encode_sample(&mut self, sample: &[u8], whole: u32, level: i8, out: &mut Vec<u8>) -> Result<()> {
        let at = match self.samplers.iter().position(|(l, w, _)| (*l, *w) == (level, whole)) {
            Some(at) => at,
            None => {
                let mut new = compressor(i32::from(level))?;
                new.set_parameter(CParameter::SrcSizeHint(whole)).map_err(text)?;
                if self.samplers.len() == MAX_SAMPLERS {
                    self.samplers.remove(0);
                }
                self.samplers.push((level, whole, new));
                self.samplers.len() - 1
            }
        };
        let context = self.samplers[at].2.context_mut();
        let name = |code| get_error_name(code).to_owned();
        let start = out.len();
        out.reserve(compress_bound(sample.len()));
        let mut target = OutBuffer::around_pos(out, start);
        let mut source = InBuffer::around(sample);
        // Zstandard uses the size hint only if the source's size is unknown. A single call that is also the last one
        // would make it known.
        while source.pos() < sample.len() {
            context.compress_stream2(&mut target, &mut source, ZSTD_e_continue).map_err(name)?;
        }
        match context.compress_stream2(&mut target, &mut source, ZSTD_e_end).map_err(name)? {
            0 => Ok(()),
            left => Err(format!("{left} bytes did not fit")),
        }
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

/// Creates a compressor for our kind of frames.
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
