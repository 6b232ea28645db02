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

const fn pco(element: Element, level: i8) -> Encoding {
    row(Transform::None, element, CodecId::Pco, level)
}

const PLAIN: [Encoding; 9] = [
    Encoding::NONE,
    plain(CodecId::Lz4, 0),
    plain(CodecId::Snappy, 0),
    plain(CodecId::Huffman, 0),
    plain(CodecId::Zstd, 1),
    plain(CodecId::Zstd, 3),
    plain(CodecId::Zstd, 9),
    plain(CodecId::Lzma, 6),
    plain(CodecId::Ppmd, 6),
];

/// What is done to elements of each width.
const TYPED: [(Transform, CodecId, i8); 8] = [
    (Transform::Shuffle, CodecId::Lz4, 0),
    (Transform::Shuffle, CodecId::Huffman, 0),
    (Transform::Shuffle, CodecId::Zstd, 1),
    (Transform::Shuffle, CodecId::Zstd, 3),
    (Transform::Delta, CodecId::Lz4, 0),
    (Transform::Delta, CodecId::Huffman, 0),
    (Transform::Delta, CodecId::Zstd, 1),
    (Transform::Delta, CodecId::Zstd, 3),
];

/// An element of each width worth trying: transforms ask for no more.
const WIDTHS: [Element; 4] = [Element::F32, Element::F64, Element::I16, Element::Record32];

/// Pco takes all numbers for floats: what that loses on integers is small, what integers lose on decimals stored as
/// floats is not.
const NUMBERS: [Encoding; 6] = [
    pco(Element::F32, 4),
    pco(Element::F64, 4),
    pco(Element::I16, 4),
    pco(Element::F32, 8),
    pco(Element::F64, 8),
    pco(Element::I16, 8),
];

/// The encodings that are chosen from: [`Encoding::NONE`] and lz4 first.
pub const ALL: &[Encoding] = &all();

const fn all() -> [Encoding; PLAIN.len() + TYPED.len() * WIDTHS.len() + NUMBERS.len()] {
    let mut all = [Encoding::NONE; PLAIN.len() + TYPED.len() * WIDTHS.len() + NUMBERS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < PLAIN.len() {
            PLAIN[at]
        } else if at < all.len() - NUMBERS.len() {
            let typed = at - PLAIN.len();
            let (transform, codec, level) = TYPED[typed % TYPED.len()];
            row(transform, WIDTHS[typed / TYPED.len()], codec, level)
        } else {
            NUMBERS[at + NUMBERS.len() - all.len()]
        };
        at += 1;
    }
    all
}

/// Encodings that read and write as those of [`ALL`] do, but are seldom worth choosing.
pub const RARE: &[Encoding] = &[
    plain(CodecId::Zstd, 19),
    plain(CodecId::Lz4Hc, 9),
    plain(CodecId::Deflate, 6),
    plain(CodecId::Brotli, 5),
    plain(CodecId::Bzip2, 9),
    plain(CodecId::Lzo, 0),
    plain(CodecId::QuickLz, 1),
    plain(CodecId::QuickLz, 3),
    row(Transform::Delta, Element::Bytes, CodecId::Huffman, 0),
    row(Transform::BitShuffle, Element::I16, CodecId::Lz4, 0),
    row(Transform::BitShuffle, Element::F32, CodecId::Lz4, 0),
    row(Transform::BitShuffle, Element::F32, CodecId::Zstd, 1),
    row(Transform::BitShuffle, Element::F64, CodecId::Zstd, 1),
    row(Transform::BitShuffle, Element::Record32, CodecId::Lz4, 0),
    pco(Element::I32, 8),
    pco(Element::I64, 8),
    pco(Element::U16, 4),
    pco(Element::U32, 4),
    pco(Element::U64, 4),
];
