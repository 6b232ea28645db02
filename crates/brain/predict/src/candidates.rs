//! The encodings that are chosen from, and which of them tells about which.

use std::sync::LazyLock;

use terrace_codec::{CodecId, Encoding, Transform};

/// How many candidates there are.
pub const COUNT: usize = terrace_codec::ALL.len();

/// Where [`Encoding::NONE`] stands.
pub const NONE: usize = 0;
/// Where lz4 without a transform stands.
pub const LZ4: usize = 1;

/// A candidate.
pub struct Candidate {
    /// What it is.
    pub encoding: Encoding,
    /// Lz4 with the same transform, or for pco with the deltas of the same width: cheap, and says most about the rest.
    pub filter: usize,
    /// One of the same family that is faster and says nearly as much.
    pub stand_in: Option<usize>,
}

impl Candidate {
    /// Bytes of an element; 1 without a transform.
    pub fn width(&self) -> usize {
        self.encoding.element.width()
    }

    /// Whether it is lz4: tried for its filter's sake.
    pub fn is_filter(&self) -> bool {
        self.encoding.codec == CodecId::Lz4
    }
}

/// All candidates; [`NONE`] and [`LZ4`] first.
pub static ALL: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let find = |transform, width, codec, level| {
        let same = |e: &Encoding| e.transform == transform && e.element.width() == width;
        terrace_codec::ALL.iter().position(|e| same(e) && (e.codec, e.level) == (codec, level))
    };
    let candidate = |&encoding: &Encoding| {
        let Encoding { transform, element, codec, level } = encoding;
        let width = element.width();
        let filter = match codec {
            CodecId::Pco => find(Transform::Delta, width, CodecId::Lz4, 0),
            _ => find(transform, width, CodecId::Lz4, 0),
        };
        let stand_in = match codec {
            CodecId::Zstd if level > 1 => find(transform, width, CodecId::Zstd, 1),
            CodecId::Lzma | CodecId::Ppmd => find(Transform::None, 1, CodecId::Zstd, 1),
            CodecId::Pco if level > 4 => find(Transform::None, width, CodecId::Pco, 4),
            _ => None,
        };
        Candidate { encoding, filter: filter.unwrap_or(LZ4), stand_in }
    };
    terrace_codec::ALL.iter().map(candidate).collect()
});

/// Where an encoding stands.
pub fn position(encoding: Encoding) -> Option<usize> {
    ALL.iter().position(|candidate| candidate.encoding == encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_relations_are_what_they_say() {
        assert_eq!(ALL.len(), COUNT);
        assert_eq!((ALL[NONE].encoding, ALL[LZ4].encoding.to_string()), (Encoding::NONE, "lz4".into()));
        let name = |of: &str| position(of.parse().expect("a name")).expect("a candidate");
        for (of, filter, stand_in) in [
            ("shuffle4+zstd-1", "shuffle4+lz4", None),
            ("delta8+zstd-3", "delta8+lz4", Some("delta8+zstd-1")),
            ("pco-f32", "delta4+lz4", Some("pco-f32-4")),
            ("pco-i16-4", "delta2+lz4", None),
            ("ppmd-6", "lz4", Some("zstd-1")),
            ("shuffle32+huffman", "shuffle32+lz4", None),
        ] {
            let candidate = &ALL[name(of)];
            assert_eq!(candidate.filter, name(filter), "{of}");
            assert_eq!(candidate.stand_in, stand_in.map(name), "{of}");
        }
    }

    #[test]
    fn no_candidate_stands_twice() {
        for (at, candidate) in ALL.iter().enumerate() {
            assert_eq!(position(candidate.encoding), Some(at), "{}", candidate.encoding);
        }
    }
}
