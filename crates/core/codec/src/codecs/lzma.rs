//! LZMA with its own header of 13 bytes, by liblzma.

use liblzma::stream::{Action, LzmaOptions, Status, Stream};

use super::{Result, text};

/// The memory limit of a decoder in bytes: the largest dictionary, plus overhead.
const MAX_DECODER_MEMORY_BYTES: u64 = 16 << 20;
/// The minimum dictionary size in bytes.
const MIN_DICTIONARY_BYTES: u32 = 4096;
/// The maximum dictionary size in bytes.
const MAX_DICTIONARY_BYTES: u32 = 8 << 20;

pub fn encode(source: &[u8], level: i8, out: &mut Vec<u8>) -> Result<()> {
    let level = level.clamp(0, 9);
    let mut options = LzmaOptions::new_preset(u32::from(level.unsigned_abs())).map_err(text)?;
    // A dictionary larger than the block would have no effect.
    options.dict_size(
        u32::try_from(source.len()).unwrap_or(MAX_DICTIONARY_BYTES).clamp(MIN_DICTIONARY_BYTES, MAX_DICTIONARY_BYTES),
    );
    let mut stream = Stream::new_lzma_encoder(&options).map_err(text)?;
    // Written to the buffer's free capacity, which is not filled with zeros first.
    out.reserve(source.len() + source.len() / 2 + 1024);
    match stream.process_vec(source, out, Action::Finish).map_err(text)? {
        Status::StreamEnd => Ok(()),
        status => Err(format!("{status:?}")),
    }
}

pub fn decode(stored: &[u8], target: &mut [u8]) -> Result<usize> {
    let mut stream = Stream::new_lzma_decoder(MAX_DECODER_MEMORY_BYTES).map_err(text)?;
    let status = stream.process(stored, target, Action::Run).map_err(text)?;
    let length = usize::try_from(stream.total_out()).map_err(text)?;
    if status == Status::StreamEnd {
        return Ok(length);
    }
    // If the target is full, the decoder stops before it reads the end mark.
    let at = usize::try_from(stream.total_in()).map_or(stored.len(), |n| n.min(stored.len()));
    match stream.process(&stored[at..], &mut [], Action::Finish).map_err(text)? {
        Status::StreamEnd => Ok(length),
        status => Err(format!("{status:?}")),
    }
}
