//! [`Encoding`]: its four bytes in a frame, and the tables of those there are to choose from.

use serde::{Deserialize, Serialize};

use crate::{CodecId, Element, Error, Transform};

/// A transform, the type of element that it works on, a codec and its level: what the planner chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Encoding {
    /// What is done to the elements first.
    pub transform: Transform,
    /// The elements' type.
    pub element: Element,
    /// The codec.
    pub codec: CodecId,
    /// The codec's level; 0 where it has none. One out of the codec's range means the nearest in it.
    pub level: i8,
}

impl Encoding {
    /// Bytes stored as they are.
    pub const NONE: Encoding = row(Transform::None, Element::Bytes, CodecId::None, 0);

    /// The encoding as it stands in a frame's header.
    pub const fn to_bytes(self) -> [u8; 4] {
        [self.transform as u8, self.element as u8, self.codec as u8, self.level.cast_unsigned()]
    }

    /// The encoding that four bytes of a frame's header name.
    ///
    /// # Errors
    /// [`Error::UnknownTransform`], [`Error::UnknownElement`] or [`Error::UnknownCodec`].
    pub fn from_bytes([transform, element, codec, level]: [u8; 4]) -> Result<Self, Error> {
        Ok(Encoding {
            transform: Transform::of(transform)?,
            element: Element::of(element)?,
            codec: CodecId::of(codec)?,
            level: level.cast_signed(),
        })
    }
}

const fn row(transform: Transform, element: Element, codec: CodecId, level: i8) -> Encoding {
    Encoding { transform, element, codec, level }
}

const fn plain(codec: CodecId, level: i8) -> Encoding {
    row(Transform::None, Element::Bytes, codec, level)
}

/// The encodings that the planner chooses from.
pub const ALL: &[Encoding] = &[
    Encoding::NONE,
    plain(CodecId::Lz4, 0),
    plain(CodecId::Huffman, 0),
    plain(CodecId::Zstd, 1),
    plain(CodecId::Zstd, 3),
    plain(CodecId::Zstd, 9),
    row(Transform::Shuffle, Element::I16, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::I16, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::F32, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::F32, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::F32, CodecId::Zstd, 3),
    row(Transform::Delta, Element::F32, CodecId::Lz4, 0),
    row(Transform::Delta, Element::F32, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::F64, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::F64, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::F64, CodecId::Zstd, 3),
    row(Transform::Delta, Element::F64, CodecId::Lz4, 0),
    row(Transform::Delta, Element::F64, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::Record32, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::Record32, CodecId::Zstd, 1),
    row(Transform::None, Element::I32, CodecId::Pco, 8),
    row(Transform::None, Element::I64, CodecId::Pco, 8),
    row(Transform::None, Element::F32, CodecId::Pco, 8),
    row(Transform::None, Element::F64, CodecId::Pco, 8),
];

/// Encodings that read and write as those of [`ALL`] do, but are seldom worth choosing.
pub const RARE: &[Encoding] = &[
    plain(CodecId::Zstd, 19),
    plain(CodecId::Lz4Hc, 9),
    plain(CodecId::Snappy, 0),
    plain(CodecId::Deflate, 6),
    plain(CodecId::Brotli, 5),
    plain(CodecId::Bzip2, 9),
    plain(CodecId::Lzma, 6),
    plain(CodecId::Lzo, 0),
    plain(CodecId::Ppmd, 6),
    row(Transform::Delta, Element::Bytes, CodecId::Huffman, 0),
    row(Transform::Delta, Element::I16, CodecId::Zstd, 1),
    row(Transform::Delta, Element::Record32, CodecId::Zstd, 1),
    row(Transform::None, Element::I16, CodecId::Pco, 8),
    row(Transform::None, Element::U16, CodecId::Pco, 4),
    row(Transform::None, Element::U32, CodecId::Pco, 4),
    row(Transform::None, Element::U64, CodecId::Pco, 4),
    row(Transform::None, Element::F32, CodecId::Pco, 4),
    row(Transform::None, Element::F64, CodecId::Pco, 4),
];
