//! Encodings: a transform of typed elements, then a codec.
//!
//! An [`Encoding`] names the four things that the planner chooses together: a [`Transform`], the [`Element`] it works
//! on, a [`CodecId`] and its level. [`ALL`] is the table of those worth choosing from, [`RARE`] that of the others.
//! [`encode`] and [`decode`] run one over a block; a thread keeps one [`Scratch`] for all of its calls.
//!
//! ```
//! use terrace_codec::{Encoding, Scratch, decode, encode};
//!
//! let encoding: Encoding = "shuffle4+zstd-1".parse()?;
//! let raw: Vec<u8> = (0..4096u32).flat_map(u32::to_le_bytes).collect();
//! let (mut stored, mut scratch) = (Vec::new(), Scratch::default());
//! assert!(encode(encoding, &raw, &mut stored, &mut scratch)?.is_some());
//! let mut back = vec![0; raw.len()];
//! decode(encoding, &stored, &mut back, &mut scratch)?;
//! assert_eq!(back, raw);
//! # Ok::<(), terrace_codec::Error>(())
//! ```

#[cfg(target_endian = "big")]
compile_error!("numbers are encoded as they stand in memory, and the format says little-endian");

mod codecs;
mod encoding;
mod error;
mod name;
mod parts;
mod transform;

pub use encoding::{ALL, Encoding, RARE};
pub use error::Error;
pub use parts::{CodecId, Element, Transform};

/// Buffers and codec contexts that are used again: one for each thread.
#[derive(Default)]
pub struct Scratch {
    transformed: Vec<u8>,
    contexts: codecs::Contexts,
}

/// Encodes `raw` into `out`, which is cleared first. None, and nothing in `out`, where the result would not be shorter
/// than `raw`.
///
/// # Errors
/// [`Error::Internal`] where the codec's library fails or has nothing for the element; never for what the bytes are.
pub fn encode(
    encoding: Encoding,
    raw: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Option<usize>, Error> {
    run(encoding, raw, out, scratch, codecs::encode)
}

/// As [`encode`] of a sample out of `whole` bytes: a codec that works otherwise on short blocks than on long ones works
/// as it would on the whole. So its ratio and its speed are the whole's, as far as the sample is like it.
///
/// # Errors
/// As [`encode`].
pub fn encode_sample(
    encoding: Encoding,
    sample: &[u8],
    whole: u32,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Option<usize>, Error> {
    run(encoding, sample, out, scratch, |encoding, source, out, contexts| {
        codecs::encode_sample(encoding, source, whole, out, contexts)
    })
}

fn run(
    encoding: Encoding,
    raw: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
    codec: impl FnOnce(Encoding, &[u8], &mut Vec<u8>, &mut codecs::Contexts) -> Result<(), String>,
) -> Result<Option<usize>, Error> {
    out.clear();
    if encoding.codec == CodecId::None || raw.is_empty() {
        return Ok(None);
    }
    let Scratch { transformed, contexts } = scratch;
    let source = if encoding.transform == Transform::None {
        raw
    } else {
        transformed.resize(raw.len(), 0);
        transform::apply(encoding, raw, transformed);
        transformed
    };
    codec(encoding, source, out, contexts).map_err(|reason| Error::Internal { encoding, reason })?;
    if out.len() >= raw.len() {
        out.clear();
        return Ok(None);
    }
    Ok(Some(out.len()))
}

/// Fills `raw`, whose length is that of the bytes encoded, from `stored`.
///
/// # Errors
/// [`Error::Damaged`] where `stored` does not decode to exactly that many bytes. Bytes of `raw` are then anything.
pub fn decode(encoding: Encoding, stored: &[u8], raw: &mut [u8], scratch: &mut Scratch) -> Result<(), Error> {
    let Scratch { transformed, contexts } = scratch;
    let length = raw.len();
    let target = if encoding.transform == Transform::None {
        &mut *raw
    } else {
        transformed.resize(length, 0);
        &mut transformed[..]
    };
    let damaged = |reason| Error::Damaged { encoding, reason };
    let decoded = codecs::decode(encoding, stored, target, contexts).map_err(damaged)?;
    if decoded != length {
        return Err(damaged(format!("they decode to {decoded} bytes, not {length}")));
    }
    if encoding.transform != Transform::None {
        transform::undo(encoding, transformed, raw);
    }
    Ok(())
}
