//! [`Encoding`]: its parts, its name, and its four bytes in a frame.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// What is done to the elements before the codec. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Transform {
    /// Nothing.
    None = 0,
    /// First bytes of all elements, then all second bytes, and so on.
    Shuffle = 1,
}

/// The type of the elements. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Element {
    /// Not known.
    Bytes = 0,
    /// 16-bit integers.
    I16 = 1,
    /// 32-bit integers.
    I32 = 2,
    /// 64-bit integers.
    I64 = 3,
    /// 32-bit floating point numbers.
    F32 = 4,
    /// 64-bit floating point numbers.
    F64 = 5,
    /// Records of 32 bytes.
    Record32 = 6,
}

impl Element {
    /// Bytes of one element.
    pub const fn width(self) -> usize {
        match self {
            Element::Bytes => 1,
            Element::I16 => 2,
            Element::I32 | Element::F32 => 4,
            Element::I64 | Element::F64 => 8,
            Element::Record32 => 32,
        }
    }
}

/// A codec. The numbers are part of the format and are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum CodecId {
    /// Stored as it is.
    None = 0,
    /// LZ4 blocks.
    Lz4 = 1,
    /// Zstandard frames.
    Zstd = 2,
}

/// A transform, the type of element that it works on, a codec and its level: what the planner chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Encoding {
    /// What is done to the elements first.
    pub transform: Transform,
    /// The elements' type.
    pub element: Element,
    /// The codec.
    pub codec: CodecId,
    /// The codec's level; 0 where it has none.
    pub level: i8,
}

const fn row(transform: Transform, element: Element, codec: CodecId, level: i8) -> Encoding {
    Encoding { transform, element, codec, level }
}

/// Every encoding there is to choose from, one for each width.
pub const ALL: &[Encoding] = &[
    Encoding::NONE,
    row(Transform::None, Element::Bytes, CodecId::Lz4, 0),
    row(Transform::None, Element::Bytes, CodecId::Zstd, 1),
    row(Transform::None, Element::Bytes, CodecId::Zstd, 3),
    row(Transform::Shuffle, Element::I16, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::I16, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::F32, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::F32, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::F32, CodecId::Zstd, 3),
    row(Transform::Shuffle, Element::F64, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::F64, CodecId::Zstd, 1),
    row(Transform::Shuffle, Element::F64, CodecId::Zstd, 3),
    row(Transform::Shuffle, Element::Record32, CodecId::Lz4, 0),
    row(Transform::Shuffle, Element::Record32, CodecId::Zstd, 1),
];

impl Encoding {
    /// Bytes stored as they are.
    pub const NONE: Encoding = row(Transform::None, Element::Bytes, CodecId::None, 0);

    /// The encoding as it stands in a frame's header.
    pub const fn to_bytes(self) -> [u8; 4] {
        [self.transform as u8, self.element as u8, self.codec as u8, self.level as u8]
    }

    /// The encoding that four bytes of a frame's header name.
    pub fn from_bytes(bytes: [u8; 4]) -> Result<Encoding, Error> {
        let unknown = || Error::Unknown(format!("{bytes:?}"));
        let transform = match bytes[0] {
            0 => Transform::None,
            1 => Transform::Shuffle,
            _ => return Err(unknown()),
        };
        let element = match bytes[1] {
            0 => Element::Bytes,
            1 => Element::I16,
            2 => Element::I32,
            3 => Element::I64,
            4 => Element::F32,
            5 => Element::F64,
            6 => Element::Record32,
            _ => return Err(unknown()),
        };
        let codec = match bytes[2] {
            0 => CodecId::None,
            1 => CodecId::Lz4,
            2 => CodecId::Zstd,
            _ => return Err(unknown()),
        };
        Ok(Encoding { transform, element, codec, level: bytes[3] as i8 })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transform == Transform::Shuffle {
            write!(f, "shuffle{}+", self.element.width())?;
        }
        match self.codec {
            CodecId::None => f.write_str("none"),
            CodecId::Lz4 => f.write_str("lz4"),
            CodecId::Zstd => write!(f, "zstd-{}", self.level),
        }
    }
}

impl FromStr for Encoding {
    type Err = Error;

    /// The encoding of a name; of a width that several types share, the floating point one.
    fn from_str(name: &str) -> Result<Encoding, Error> {
        ALL.iter().copied().find(|e| e.to_string() == name).ok_or_else(|| Error::Unknown(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bytes_lead_back() {
        for &encoding in ALL {
            assert_eq!(encoding.to_string().parse::<Encoding>().expect("a name"), encoding);
            assert_eq!(Encoding::from_bytes(encoding.to_bytes()).expect("bytes"), encoding);
        }
        assert!("lz5".parse::<Encoding>().is_err());
        assert!(Encoding::from_bytes([0, 0, 99, 0]).is_err());
    }

    /// These stand in frames on disks.
    #[test]
    fn bytes_never_change() {
        let bytes = |name: &str| name.parse::<Encoding>().expect("a name").to_bytes();
        assert_eq!(bytes("none"), [0, 0, 0, 0]);
        assert_eq!(bytes("lz4"), [0, 0, 1, 0]);
        assert_eq!(bytes("zstd-3"), [0, 0, 2, 3]);
        assert_eq!(bytes("shuffle4+zstd-1"), [1, 4, 2, 1]);
        assert_eq!(bytes("shuffle32+lz4"), [1, 6, 1, 0]);
    }
}
