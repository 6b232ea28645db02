//! Primitive types.

use std::fmt;
use std::str::FromStr;

/// A primitive type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Primitive {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Bool,
    Float16,
    Float32,
    Float64,
    Complex64,
    Complex128,
    /// Text of at most this number of bytes, after an int16 with its length.
    String(u16),
}

use Primitive::*;

const PRIMITIVE_NAMES: [(&str, Primitive); 14] = [
    ("int8", Int8),
    ("int16", Int16),
    ("int32", Int32),
    ("int64", Int64),
    ("uint8", Uint8),
    ("uint16", Uint16),
    ("uint32", Uint32),
    ("uint64", Uint64),
    ("bool", Bool),
    ("float16", Float16),
    ("float32", Float32),
    ("float64", Float64),
    ("complex64", Complex64),
    ("complex128", Complex128),
];
const MAX_STRING_BYTES: u16 = i16::MAX as u16;

/// A run of bytes of an element that is swapped in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The offset in the element.
    pub offset: u64,
    /// The length in bytes.
    pub size: u64,
    /// The size of each number in it.
    pub unit: u64,
}

impl Primitive {
    /// Returns the size of an element in bytes.
    pub fn size(self) -> u64 {
        match self {
            Int8 | Uint8 | Bool => 1,
            Int16 | Uint16 | Float16 => 2,
            Int32 | Uint32 | Float32 => 4,
            Int64 | Uint64 | Float64 | Complex64 => 8,
            Complex128 => 16,
            String(most) => 2 + u64::from(most),
        }
    }

    /// Returns the natural alignment (III-B 1 of the paper); a complex number has the alignment of its parts.
    pub fn alignment(self) -> u64 {
        match self {
            Complex64 => 4,
            Complex128 => 8,
            String(_) => 2,
            other => other.size(),
        }
    }

    /// Returns the runs of bytes, with the unit in which a change of endianness swaps them.
    pub fn parts(self) -> Vec<Part> {
        let whole = |unit| vec![Part { offset: 0, size: self.size(), unit }];
        match self {
            String(0) => whole(2),
            String(most) => {
                vec![Part { offset: 0, size: 2, unit: 2 }, Part { offset: 2, size: most.into(), unit: 1 }]
            }
            other => whole(other.alignment()),
        }
    }

    /// Returns whether it can be the length of an array.
    pub fn is_integer(self) -> bool {
        matches!(self, Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64)
    }

    /// Returns the value of an integer; `None` if `bytes` has another length, or if this is not an integer type.
    pub fn integer(self, bytes: &[u8], big: bool) -> Option<i128> {
        let mut value: i128 = 0;
        if !self.is_integer() || bytes.len() as u64 != self.size() {
            return None;
        }
        for i in 0..bytes.len() {
            let highest_first = if big { i } else { bytes.len() - 1 - i };
            value = value << 8 | i128::from(*bytes.get(highest_first)?);
        }
        let bits = 8 * bytes.len();
        let signed = matches!(self, Int8 | Int16 | Int32 | Int64);
        Some(if signed && value >> (bits - 1) == 1 { value - (1 << bits) } else { value })
    }

    /// Returns the name in NumPy's terms, such as `<f4`. Texts are bytes there.
    pub fn numpy_name(self, big: bool) -> std::string::String {
        let letter = match self {
            Int8 | Int16 | Int32 | Int64 => 'i',
            Uint8 | Uint16 | Uint32 | Uint64 => 'u',
            Bool => 'b',
            Float16 | Float32 | Float64 => 'f',
            Complex64 | Complex128 => 'c',
            String(_) => 'V',
        };
        let order = match (self.size(), letter, big) {
            (1, ..) | (_, 'V', _) => '|',
            (_, _, true) => '>',
            (_, _, false) => '<',
        };
        format!("{order}{letter}{}", self.size())
    }

    /// Returns the names of all types; `string` stands for any length.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        PRIMITIVE_NAMES.iter().map(|(name, _)| *name).chain(["string16"])
    }
}

impl FromStr for Primitive {
    type Err = ();

    fn from_str(name: &str) -> Result<Primitive, ()> {
        if let Some((_, primitive)) = PRIMITIVE_NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*primitive);
        }
        let digits = name.strip_prefix("string").filter(|d| d.bytes().all(|b| b.is_ascii_digit())).ok_or(())?;
        digits.parse().ok().filter(|most| *most <= MAX_STRING_BYTES).map(String).ok_or(())
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            String(most) => write!(f, "string{most}"),
            other => f.write_str(PRIMITIVE_NAMES.iter().find(|(_, p)| p == other).map_or("", |(name, _)| name)),
        }
    }
}
