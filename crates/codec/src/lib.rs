//! Encodings: a transform of typed elements, then a codec. Each is a row of one table; ids are never reused.
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

mod encoding;
mod lz4;
mod transform;
mod zstandard;

pub use encoding::{ALL, CodecId, Element, Encoding, Transform};

/// Why bytes could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text or number names no encoding.
    #[error("no encoding is named {0:?}; `none`, `lz4`, `zstd-1` and `shuffle4+zstd-1` are such names")]
    Unknown(String),
    /// The stored bytes are not what this encoding makes.
    #[error("{encoding}: the stored bytes are damaged: {reason}")]
    Damaged {
        /// The encoding.
        encoding: Encoding,
        /// What is wrong.
        reason: String,
    },
    /// The codec's library failed.
    #[error("{encoding}: {reason}")]
    Failed {
        /// The encoding.
        encoding: Encoding,
        /// What the library says.
        reason: String,
    },
}

/// Buffers and contexts that are used again: one for each thread.
#[derive(Default)]
pub struct Scratch {
    transformed: Vec<u8>,
    zstd: zstandard::Contexts,
}

/// Encodes `raw` into `out`, which is cleared first. None, where the result would not be shorter than `raw`.
///
/// # Errors
/// [`Error::Failed`] where the codec's library fails; never because of what the bytes are.
pub fn encode(
    encoding: Encoding,
    raw: &[u8],
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Option<usize>, Error> {
    out.clear();
    let Scratch { transformed, zstd } = scratch;
    let source = match encoding.transform {
        Transform::None => raw,
        Transform::Shuffle => {
            transform::shuffle(raw, encoding.element.width(), transformed);
            transformed
        }
    };
    let failed = |reason: String| Error::Failed { encoding, reason };
    match encoding.codec {
        CodecId::None => return Ok(None),
        CodecId::Lz4 => lz4::encode(source, out).map_err(failed)?,
        CodecId::Zstd => zstd.encode(source, encoding.level, out).map_err(failed)?,
    }
    Ok((out.len() < raw.len()).then_some(out.len()))
}

/// Fills `raw`, whose length is that of the bytes encoded, from `stored`.
///
/// # Errors
/// [`Error::Damaged`] where `stored` does not decode to exactly that many bytes.
pub fn decode(encoding: Encoding, stored: &[u8], raw: &mut [u8], scratch: &mut Scratch) -> Result<(), Error> {
    let Scratch { transformed, zstd } = scratch;
    let length = raw.len();
    let shuffled = encoding.transform == Transform::Shuffle;
    let target: &mut [u8] = if shuffled {
        transformed.resize(length, 0);
        transformed
    } else {
        &mut *raw
    };
    let decoded = match encoding.codec {
        CodecId::None if stored.len() == length => {
            target.copy_from_slice(stored);
            Ok(length)
        }
        CodecId::None => Ok(stored.len()),
        CodecId::Lz4 => lz4::decode(stored, target),
        CodecId::Zstd => zstd.decode(stored, target),
    };
    let damaged = |reason: String| Error::Damaged { encoding, reason };
    let decoded = decoded.map_err(damaged)?;
    if decoded != length {
        return Err(damaged(format!("they decode to {decoded} bytes, not {length}")));
    }
    if shuffled {
        transform::unshuffle(transformed, encoding.element.width(), raw);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data() -> impl Strategy<Value = Vec<u8>> {
        (0usize..70_000, 0u8..5, any::<u64>()).prop_map(|(length, kind, seed)| {
            let mut state = seed | 1;
            let mut random = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            };
            (0..length)
                .map(|i| match kind {
                    0 => random(),
                    1 => 42,
                    2 => ((i / 4) as f32 * 0.1).to_le_bytes()[i % 4],
                    3 => ((i / 8) as f64).sqrt().to_le_bytes()[i % 8],
                    _ => b"the tier of the store "[i % 22],
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_encoded_decodes(raw in data(), which in 0..ALL.len()) {
            let (mut stored, mut scratch) = (Vec::new(), Scratch::default());
            let encoding = ALL[which];
            if encode(encoding, &raw, &mut stored, &mut scratch).expect("encodes").is_some() {
                prop_assert!(stored.len() < raw.len());
                let mut back = vec![1; raw.len()];
                decode(encoding, &stored, &mut back, &mut scratch).expect("decodes");
                prop_assert_eq!(&back, &raw);
                let mut short = vec![0; raw.len() - 1];
                prop_assert!(decode(encoding, &stored, &mut short, &mut scratch).is_err());
            }
        }

        #[test]
        fn hostile_bytes_are_an_error_or_bytes_of_the_declared_length(
            raw in data(), which in 0..ALL.len(), flips in prop::collection::vec(any::<prop::sample::Index>(), 1..8), cut in any::<bool>(),
        ) {
            let (mut stored, mut scratch) = (Vec::new(), Scratch::default());
            let encoding = ALL[which];
            if encode(encoding, &raw, &mut stored, &mut scratch).expect("encodes").is_none() {
                stored = raw.clone();
            }
            for flip in flips {
                if !stored.is_empty() {
                    let at = flip.index(stored.len());
                    stored[at] ^= 0x55;
                }
            }
            if cut {
                stored.truncate(stored.len() / 2);
            }
            let mut back = vec![0; raw.len()];
            let _ = decode(encoding, &stored, &mut back, &mut scratch);
        }
    }
}
