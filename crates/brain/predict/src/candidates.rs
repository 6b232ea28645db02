//! The candidate encodings, and their relations: which one predicts which.

use std::sync::LazyLock;

use terrace_codec::{CodecId, Encoding, Transform};

/// The number of candidates.
pub const CANDIDATE_COUNT: usize = terrace_codec::ALL_ENCODINGS.len();

/// The index of [`Encoding::NONE`].
pub const NONE_INDEX: usize = 0;
/// The index of lz4 without a transform.
pub const LZ4_INDEX: usize = 1;

/// A candidate encoding.
pub struct Candidate {
    /// The encoding.
    pub encoding: Encoding,
    /// The filter: lz4 with the same transform, or for pco and fields with the delta transform of the same width. It is cheap, and
    /// predicts the candidate best.
    pub filter: usize,
    /// The stand-in: a faster encoding of the same family that predicts the candidate nearly as well.
    pub stand_in: Option<usize>,
}

impl Candidate {
    /// Returns the element width in bytes; 1 without a transform.
    pub fn width(&self) -> usize {
        self.encoding.element.width()
    }

    /// Returns whether the candidate is lz4, which serves as a filter for others.
    pub fn is_filter(&self) -> bool {
        self.encoding.codec == CodecId::Lz4
    }
}

/// All candidates; [`NONE_INDEX`] and [`LZ4_INDEX`] come first.
pub static ALL_CANDIDATES: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let find = |transform, width, codec, level| {
        let same = |e: &Encoding| e.transform == transform && e.element.width() == width;
        terrace_codec::ALL_ENCODINGS.iter().position(|e| same(e) && (e.codec, e.level) == (codec, level))
    };
    let candidate = |&encoding: &Encoding| {
        let Encoding { transform, element, codec, level } = encoding;
        let width = element.width();
        let filter = match codec {
            CodecId::Pco | CodecId::Fields => find(Transform::Delta, width, CodecId::Lz4, 0),
            _ => find(transform, width, CodecId::Lz4, 0),
        };
        let stand_in = match codec {
            CodecId::Zstd if level > 1 => find(transform, width, CodecId::Zstd, 1),
            CodecId::Lzma | CodecId::PpmdFit => find(Transform::None, 1, CodecId::Zstd, 1),
            CodecId::Pco | CodecId::Fields if level > 4 => find(Transform::None, width, CodecId::Pco, 4),
            _ => None,
        };
        Candidate { encoding, filter: filter.unwrap_or(LZ4_INDEX), stand_in }
    };
    terrace_codec::ALL_ENCODINGS.iter().map(candidate).collect()
});

/// Returns the index of an encoding.
pub fn position(encoding: Encoding) -> Option<usize> {
    ALL_CANDIDATES.iter().position(|candidate| candidate.encoding == encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_relations_of_candidates_are_right() {
        assert_eq!(ALL_CANDIDATES.len(), CANDIDATE_COUNT);
        assert_eq!(
            (ALL_CANDIDATES[NONE_INDEX].encoding, ALL_CANDIDATES[LZ4_INDEX].encoding.to_string()),
            (Encoding::NONE, "lz4".into())
        );
        let name = |of: &str| position(of.parse().expect("a name")).expect("a candidate");
        for (of, filter, stand_in) in [
            ("shuffle4+zstd-1", "shuffle4+lz4", None),
            ("delta8+zstd-3", "delta8+lz4", Some("delta8+zstd-1")),
            ("pco-f32", "delta4+lz4", Some("pco-f32-4")),
            ("pco-i16-4", "delta2+lz4", None),
            ("ppmdfit-6", "lz4", Some("zstd-1")),
            ("fields-f64-8", "delta8+lz4", Some("pco-f64-4")),
            ("shuffle32+huffman", "shuffle32+lz4", None),
        ] {
            let candidate = &ALL_CANDIDATES[name(of)];
            assert_eq!(candidate.filter, name(filter), "{of}");
            assert_eq!(candidate.stand_in, stand_in.map(name), "{of}");
        }
    }

    #[test]
    fn no_candidate_is_listed_twice() {
        for (at, candidate) in ALL_CANDIDATES.iter().enumerate() {
            assert_eq!(position(candidate.encoding), Some(at), "{}", candidate.encoding);
        }
    }
}
