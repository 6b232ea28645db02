//! LZMA with its own header of 13 bytes, by liblzma.

use liblzma::stream::{Action, LzmaOptions, Status, Stream};

use super::{Result, text};

/// Bytes that a decoder may allocate: the largest dictionary, and some.
const MEMORY: u64 = 16 << 20;
/// The smallest dictionary.
const SMALLEST: u32 = 4096;
/// The largest dictionary.
const LARGEST: u32 = 8 << 20;

pub fn encode(source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
    let level = level.clamp(0, 9);
    let mut options = LzmaOptions::new_preset(u32::from(level.unsigned_abs())).map_err(text)?;
    // A dictionary longer than the block would never be looked up.
    options.dict_size(u32::try_from(source.len()).unwrap_or(LARGEST).clamp(SMALLEST, LARGEST));
    let mut stream = Stream::new_lzma_encoder(&options).map_err(text)?;
    out.resize(source.len() + source.len() / 2 + 1024, 0);
    match stream.process(source, out, Action::Finish).map_err(text)? {
        Status::StreamEnd => {}
        status => return Err(format!("{status:?}")),
    }
    let length = usize::try_from(stream.total_out()).map_err(text)?;
    out.truncate(length);
    Ok(())
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    let mut stream = Stream::new_lzma_decoder(MEMORY).map_err(text)?;
    let status = stream.process(stored, target, Action::Run).map_err(text)?;
    let length = usize::try_from(stream.total_out()).map_err(text)?;
    if status == Status::StreamEnd {
        return Ok(length);
    }
    // A full target ends before the end mark is read.
    let at = usize::try_from(stream.total_in()).map_or(stored.len(), |n| n.min(stored.len()));
    match stream.process(&stored[at..], &mut [], Action::Finish).map_err(text)? {
        Status::StreamEnd => Ok(length),
        status => Err(format!("{status:?}")),
    }
}
