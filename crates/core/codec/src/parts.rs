//! The parts of an encoding. Each part is a table of numbers in frames, names, and meanings.

use serde::{Deserialize, Serialize};

macro_rules! numbered {
    ($(#[$meta:meta])* $kind:ident { $($(#[$doc:meta])* $part:ident = $number:literal $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum $kind { $($(#[$doc])* $part = $number,)* }

        impl $kind {
            /// Every value.
            pub const ALL: &[$kind] = &[$($kind::$part),*];

            /// Returns the name.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$part => $name,)* }
            }

            /// Returns the value with this number.
            pub(crate) const fn of(number: u8) -> Option<Self> {
                match number { $($number => Some($kind::$part),)* _ => None }
            }
        }
    };
}

numbered! {
    /// The transform of the elements before the codec. The numbers are part of the format and must never be reused.
    Transform {
        /// No transform.
        None = 0 "none",
        /// Shuffle: the first bytes of all elements, then all second bytes, and so on.
        Shuffle = 1 "shuffle",
        /// Delta: the difference of each element from its predecessor with the sign in the lowest bit, followed by
        /// shuffle.
        Delta = 2 "delta",
        /// Bitshuffle: the lowest bits of the first bytes of all elements, then the second-lowest bits of these bytes, and so on for
        /// each bit; then those of the second bytes, and so on.
        BitShuffle = 3 "bitshuffle",
    }
}

numbered! {
    /// The type of the elements, little-endian. The numbers are part of the format and must never be reused.
    Element {
        /// Bytes, or an unknown type.
        Bytes = 0 "u8",
        /// 16-bit signed integers.
        I16 = 1 "i16",
        /// 32-bit signed integers.
        I32 = 2 "i32",
        /// 64-bit signed integers.
        I64 = 3 "i64",
        /// 32-bit floating point numbers.
        F32 = 4 "f32",
        /// 64-bit floating point numbers.
        F64 = 5 "f64",
        /// Records of eight 32-bit numbers.
        Record32 = 6 "r32",
        /// 16-bit unsigned integers.
        U16 = 7 "u16",
        /// 32-bit unsigned integers.
        U32 = 8 "u32",
        /// 64-bit unsigned integers.
        U64 = 9 "u64",
    }
}

impl Element {
    /// Returns the size of an element in bytes.
    pub const fn width(self) -> usize {
        match self {
            Element::Bytes => 1,
            Element::I16 | Element::U16 => 2,
            Element::I32 | Element::U32 | Element::F32 => 4,
            Element::I64 | Element::U64 | Element::F64 => 8,
            Element::Record32 => 32,
        }
    }

    /// The element that a bare width stands for in a name: 4 in `shuffle4` is F32.
    pub(crate) fn of_width(width: usize) -> Option<Element> {
        match width {
            1 => Some(Element::Bytes),
            2 => Some(Element::I16),
            4 => Some(Element::F32),
            8 => Some(Element::F64),
            32 => Some(Element::Record32),
            _ => None,
        }
    }
}

numbered! {
    /// A codec. The numbers are part of the format and must never be reused.
    CodecId {
        /// No compression.
        None = 0 "none",
        /// LZ4 blocks. The level is the acceleration.
        Lz4 = 1 "lz4",
        /// Zstandard frames without magic number and content size.
        Zstd = 2 "zstd",
        /// Huffman coding only, in Zstandard frames as above.
        Huffman = 3 "huffman",
        /// Pco, for numbers. The bytes left over behind the last complete element come first, uncompressed.
        Pco = 4 "pco",
        /// LZ4 blocks from a slower compressor; they decode like [`CodecId::Lz4`].
        Lz4Hc = 5 "lz4hc",
        /// Snappy blocks.
        Snappy = 6 "snappy",
        /// Raw deflate: zlib without header and checksum.
        Deflate = 7 "deflate",
        /// Brotli.
        Brotli = 8 "brotli",
        /// Bzip2.
        Bzip2 = 9 "bzip2",
        /// LZMA with its 13-byte header.
        Lzma = 10 "lzma",
        /// LZO1X.
        Lzo = 11 "lzo",
        /// PPMd variant H with a model of 8 MiB. The level is the order.
        Ppmd = 12 "ppmd",
        /// QuickLZ 1.5. The level is 1 or 3.
        QuickLz = 13 "quicklz",
        /// PPMd variant H with a model that grows with the block. The level is the order.
        PpmdFit = 14 "ppmdfit",
        /// Records whose fields are stored apart, each with an encoding of its own. The element is the type of their words. At level
        /// 0 each byte of a record is a field; at levels from 1 on, a word may be one, by pco of that level.
        Fields = 15 "fields",
    }
}

impl CodecId {
    /// Returns the level that a name without a level means.
    pub(crate) const fn usual_level(self) -> i8 {
        match self {
            CodecId::Pco => 8,
            _ => 0,
        }
    }
}
