//! [`Encoding`]: its four bytes in a frame, and the tables of encodings to choose from.

use serde::{Deserialize, Serialize};

use crate::{CodecId, Element, Transform};

/// A transform, its element type, a codec and its level: the unit that the planner chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Encoding {
    /// The transform, which is applied to the elements first.
    pub transform: Transform,
    /// The type of the elements.
    pub element: Element,
    /// The codec.
    pub codec: CodecId,
    /// The codec's level; 0 if the codec has no levels. A level outside the codec's range means the nearest level in
    /// it.
    pub level: i8,
}

impl Encoding {
    /// The identity: bytes are stored unencoded.
    pub const NONE: Encoding = row(Transform::None, Element::Bytes, CodecId::None, 0);

    /// Returns the encoding as the four bytes of a frame's header.
    pub const fn to_bytes(self) -> [u8; 4] {
        [self.transform as u8, self.element as u8, self.codec as u8, self.level.cast_unsigned()]
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

const fn fields(element: Element, level: i8) -> Encoding {
    row(Transform::None, element, CodecId::Fields, level)
}

/// The encodings without a transform that the predictor chooses from.
///
/// A codec that is added here, instead of to [`RARE_ENCODINGS`], needs its speeds in the predictor's initial model:
/// `cargo run --release --example seed > src/seed.json` in `crates/brain/predict` measures them. If its ratio resembles that of another codec, add
/// an arm to `stand_in` in `src/candidates.rs` there. `make bench` shows whether the choice pays.
const UNTRANSFORMED_ENCODINGS: [Encoding; 9] = [
    Encoding::NONE,
    plain(CodecId::Lz4, 0),
    plain(CodecId::Snappy, 0),
    plain(CodecId::Huffman, 0),
    plain(CodecId::Zstd, 1),
    plain(CodecId::Zstd, 3),
    plain(CodecId::Zstd, 9),
    plain(CodecId::Lzma, 6),
    plain(CodecId::PpmdFit, 6),
];

/// The transforms and codecs for elements of each width.
const TRANSFORMED_CODECS: [(Transform, CodecId, i8); 8] = [
    (Transform::Shuffle, CodecId::Lz4, 0),
    (Transform::Shuffle, CodecId::Huffman, 0),
    (Transform::Shuffle, CodecId::Zstd, 1),
    (Transform::Shuffle, CodecId::Zstd, 3),
    (Transform::Delta, CodecId::Lz4, 0),
    (Transform::Delta, CodecId::Huffman, 0),
    (Transform::Delta, CodecId::Zstd, 1),
    (Transform::Delta, CodecId::Zstd, 3),
];

/// One element of each useful width; transforms depend only on the width.
const TRANSFORMED_ELEMENTS: [Element; 4] = [Element::F32, Element::F64, Element::I16, Element::Record32];

/// Pco, alone and on fields, treats all numbers as floats: this loses little on integers, whereas treating decimals stored as floats as
/// integers loses much.
const NUMERIC_ENCODINGS: [Encoding; 8] = [
    pco(Element::F32, 4),
    pco(Element::F64, 4),
    pco(Element::I16, 4),
    pco(Element::F32, 8),
    pco(Element::F64, 8),
    pco(Element::I16, 8),
    fields(Element::F32, 8),
    fields(Element::F64, 8),
];

/// The candidate encodings; [`Encoding::NONE`] and lz4 come first.
pub const ALL_ENCODINGS: &[Encoding] = &list_all_encodings();

const fn list_all_encodings() -> [Encoding;
    UNTRANSFORMED_ENCODINGS.len() + TRANSFORMED_CODECS.len() * TRANSFORMED_ELEMENTS.len() + NUMERIC_ENCODINGS.len()] {
    let mut all = [Encoding::NONE;
        UNTRANSFORMED_ENCODINGS.len() + TRANSFORMED_CODECS.len() * TRANSFORMED_ELEMENTS.len() + NUMERIC_ENCODINGS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < UNTRANSFORMED_ENCODINGS.len() {
            UNTRANSFORMED_ENCODINGS[at]
        } else if at < all.len() - NUMERIC_ENCODINGS.len() {
            let typed = at - UNTRANSFORMED_ENCODINGS.len();
            let (transform, codec, level) = TRANSFORMED_CODECS[typed % TRANSFORMED_CODECS.len()];
            row(transform, TRANSFORMED_ELEMENTS[typed / TRANSFORMED_CODECS.len()], codec, level)
        } else {
            NUMERIC_ENCODINGS[at + NUMERIC_ENCODINGS.len() - all.len()]
        };
        at += 1;
    }
    all
}

/// Encodings that can be read and written like those of [`ALL_ENCODINGS`], but are rarely worth choosing.
pub const RARE_ENCODINGS: &[Encoding] = &[
    plain(CodecId::Zstd, 19),
    plain(CodecId::Lz4Hc, 9),
    plain(CodecId::Deflate, 6),
    plain(CodecId::Brotli, 5),
    plain(CodecId::Bzip2, 9),
    plain(CodecId::Lzo, 0),
    plain(CodecId::Ppmd, 6),
    plain(CodecId::QuickLz, 1),
    plain(CodecId::QuickLz, 3),
    row(Transform::Delta, Element::Bytes, CodecId::Huffman, 0),
    row(Transform::BitShuffle, Element::I16, CodecId::Lz4, 0),
    row(Transform::BitShuffle, Element::F32, CodecId::Lz4, 0),
    row(Transform::BitShuffle, Element::F32, CodecId::Zstd, 1),
    row(Transform::BitShuffle, Element::F64, CodecId::Zstd, 1),
    row(Transform::BitShuffle, Element::Record32, CodecId::Lz4, 0),
    fields(Element::Bytes, 0),
    fields(Element::I16, 0),
    fields(Element::F32, 0),
    fields(Element::F32, 4),
    fields(Element::F64, 4),
    fields(Element::Record32, 0),
    fields(Element::Record32, 4),
    fields(Element::Record32, 8),
    pco(Element::I32, 8),
    pco(Element::I64, 8),
    pco(Element::U16, 4),
    pco(Element::U32, 4),
    pco(Element::U64, 4),
];
