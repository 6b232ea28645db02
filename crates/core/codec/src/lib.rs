//! Encodings: a transform of typed elements, then a codec.
//!
//! An [`Encoding`] combines the four properties that the planner chooses together: a [`Transform`], its [`Element`], a
//! [`CodecId`] and its level. [`ALL_ENCODINGS`] is the table of the encodings worth choosing, [`RARE_ENCODINGS`] the table of the others.
//! [`encode`] and [`decode`] run an encoding on a block. A thread uses one [`Scratch`] for all of its calls.
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

pub use encoding::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS};
pub use error::Error;
pub use parts::{CodecId, Element, Transform};

/// Reusable buffers and codec contexts; each thread needs its own.
#[derive(Default)]
pub struct Scratch {
    transformed: Vec<u8>,
    contexts: codecs::Contexts,
}

/// Clears `out` and encodes `raw` into it. Returns None, with `out` empty, if the result would not be shorter than
/// `raw`.
///
/// # Errors
/// [`Error::Internal`] if the codec's library fails or does not support the element. The contents of `raw` never cause
/// an error.
pub fn encode(
    encoding: Encoding,
    raw: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Option<usize>, Error> {
    run(encoding, raw, out, scratch, codecs::encode)
}

/// Like [`encode`], for a sample from a block of `whole` bytes. A codec that treats short and long blocks differently
/// treats the sample like the whole block. The ratio and the speed are therefore those of the whole block, as far as
/// the sample is representative.
///
/// # Errors
/// [`Error::Internal`], as for [`encode`].
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

/// Decodes `stored` into `raw`, whose length must be that of the encoded bytes.
///
/// # Errors
/// [`Error::Damaged`] if `stored` does not decode to exactly that many bytes. The contents of `raw` are then
/// unspecified.
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
