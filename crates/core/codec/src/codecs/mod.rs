//! The codecs, one per file. Each encoder writes into `out`, which is empty. Each decoder fills a slice from bytes that may be damaged,
//! and returns the number of bytes it filled; the stored bytes cannot raise the bound of its allocations.

mod brotli;
mod buffer;
mod bzip2;
mod deflate;
mod fields;
mod huffman;
mod lz4;
mod lzma;
mod lzo;
mod pco;
mod ppmd;
mod quicklz;
mod snappy;
mod zstd;

use crate::{CodecId, Encoding};

use buffer::OutputBuffer;

/// The state that codecs keep between calls.
#[derive(Default)]
pub struct Contexts {
    zstd: zstd::Contexts,
    huffman: huffman::Context,
    deflate: deflate::Contexts,
    fields: fields::Context,
    numbers: Vec<u64>,
    buffer: OutputBuffer,
}

/// The result of a codec, with a message as the error.
type Result<T> = std::result::Result<T, String>;

/// Runs the encoding's codec over bytes already transformed; `out` is empty.
pub fn encode(encoding: Encoding, source: &[u8], out: &mut Vec<u8>, contexts: &mut Contexts) -> Result<()> {
    let level = encoding.level;
    match encoding.codec {
        CodecId::None => out.extend_from_slice(source),
        CodecId::Lz4 => lz4::encode(source, level, out, &mut contexts.buffer)?,
        CodecId::Zstd => contexts.zstd.encode(source, level, out)?,
        CodecId::Huffman => contexts.huffman.encode(source, out)?,
        CodecId::Pco => pco::encode(encoding.element, source, level, out, &mut contexts.numbers)?,
        CodecId::Lz4Hc => lz4::encode_high(source, level, out, &mut contexts.buffer)?,
        CodecId::Snappy => snappy::encode(source, out, &mut contexts.buffer)?,
        CodecId::Deflate => contexts.deflate.encode(source, level, out, &mut contexts.buffer)?,
        CodecId::Brotli => brotli::encode(source, level, out)?,
        CodecId::Bzip2 => bzip2::encode(source, level, out)?,
        CodecId::Lzma => lzma::encode(source, level, out)?,
        CodecId::Lzo => lzo::encode(source, out)?,
        CodecId::Ppmd => ppmd::encode(source, level, ppmd::MAX_MODEL_BYTES, out)?,
        CodecId::QuickLz => quicklz::encode(source, level, out)?,
        CodecId::PpmdFit => ppmd::encode(source, level, ppmd::model_bytes(source.len()), out)?,
        CodecId::Fields => contexts.fields.encode(encoding.element, source, level, out)?,
    }
    Ok(())
}

/// Runs the encoding's codec over a sample of `whole` bytes, already transformed; `out` is empty.
pub fn encode_sample(
    encoding: Encoding,
    sample: &[u8],
    whole: u32,
    out: &mut Vec<u8>,
    contexts: &mut Contexts,
) -> Result<()> {
    match encoding.codec {
        CodecId::Zstd => contexts.zstd.encode_sample(sample, whole, encoding.level, out),
        _ => encode(encoding, sample, out, contexts),
    }
}

/// Decodes `stored` into `target` with the encoding's codec; does not undo the transform.
pub fn decode(encoding: Encoding, stored: &[u8], target: &mut [u8], contexts: &mut Contexts) -> Result<usize> {
    match encoding.codec {
        CodecId::None if stored.len() == target.len() => {
            target.copy_from_slice(stored);
            Ok(stored.len())
        }
        CodecId::None => Ok(stored.len()),
        CodecId::Lz4 | CodecId::Lz4Hc => lz4::decode(stored, target),
        CodecId::Zstd | CodecId::Huffman => contexts.zstd.decode(stored, target),
        CodecId::Pco => pco::decode(encoding.element, stored, target, &mut contexts.numbers),
        CodecId::Snappy => snappy::decode(stored, target),
        CodecId::Deflate => contexts.deflate.decode(stored, target),
        CodecId::Brotli => brotli::decode(stored, target),
        CodecId::Bzip2 => bzip2::decode(stored, target),
        CodecId::Lzma => lzma::decode(stored, target),
        CodecId::Lzo => lzo::decode(stored, target),
        CodecId::Ppmd => ppmd::decode(stored, encoding.level, ppmd::MAX_MODEL_BYTES, target),
        CodecId::QuickLz => quicklz::decode(stored, target),
        CodecId::PpmdFit => ppmd::decode(stored, encoding.level, ppmd::model_bytes(target.len()), target),
        CodecId::Fields => contexts.fields.decode(stored, target),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
