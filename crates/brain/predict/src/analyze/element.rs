//! The type of the elements: from the caller, from the file's metadata, or from the numbers.

use terrace_codec::Element;

/// Elements of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elements {
    /// The type.
    pub element: Element,
    /// Whether they are big-endian. Then encodings can use only their width.
    pub big_endian: bool,
}

impl Elements {
    /// Makes little-endian elements.
    pub fn of(element: Element) -> Self {
        Elements { element, big_endian: false }
    }

    /// Parses a name of NumPy, HDF5 or Zarr: `<f4`, `float32`, `>i2`, `int64`, `u1`, `double`. Returns `None` for other
    /// names.
    pub fn from_dtype(dtype: &str) -> Option<Self> {
        let name = dtype.trim().to_ascii_lowercase();
        let (big_endian, name) = match name.split_at_checked(1)? {
            (">", rest) => (true, rest),
            ("<" | "|" | "=", rest) => (false, rest),
            _ => (false, &name[..]),
        };
        let element = match name {
            "f4" | "float32" | "float" | "single" | "c8" | "complex64" => Element::F32,
            "f8" | "float64" | "double" | "c16" | "complex128" => Element::F64,
            "i1" | "u1" | "int8" | "uint8" | "bool" | "b1" | "?" => Element::Bytes,
            // No codec knows half floats; only their width matters.
            "i2" | "int16" | "f2" | "float16" => Element::I16,
            "u2" | "uint16" => Element::U16,
            "i4" | "int32" => Element::I32,
            "u4" | "uint32" => Element::U32,
            "i8" | "int64" => Element::I64,
            "u8" | "uint64" => Element::U64,
            _ => return None,
        };
        Some(Elements { element, big_endian })
    }

    /// Determines the type of numbers of a known width. They count as floats if, read as floats, at least 98 % of those that
    /// are not zero lie between 1e-20 and 1e20.
    pub fn from_numbers(width: usize, sample: &[u8]) -> Option<Self> {
        let element = match width {
            2 => Element::I16,
            4 if look_like_floats(sample.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into())) => {
                Element::F32
            }
            4 => Element::I32,
            8 if look_like_floats(sample.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b))) => Element::F64,
            8 => Element::I64,
            32 => Element::Record32,
            _ => return None,
        };
        Some(Self::of(element))
    }
}

/// Returns whether these look like floats, rather than integers or bytes interpreted as floats.
fn look_like_floats(numbers: impl ExactSizeIterator<Item = f64>) -> bool {
    let (all, mut zeros) = (numbers.len(), 0);
    let odd = numbers
        .filter(|number| {
            let size = number.abs();
            zeros += usize::from(size == 0.0);
            size != 0.0 && !(1e-20..1e20).contains(&size)
        })
        .count();
    zeros < all && odd * 50 <= all - zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        let of = |name| Elements::from_dtype(name).map(|e| (e.element, e.big_endian));
        assert_eq!(of("<f4"), Some((Element::F32, false)));
        assert_eq!(of(">i2"), Some((Element::I16, true)));
        assert_eq!(of(" Float64 "), Some((Element::F64, false)));
        assert_eq!(of("|u1"), Some((Element::Bytes, false)));
        for name in ["", "<", "object", "S10", "[('a', '<f4')]", "ä"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn floats_and_integers() {
        let floats: Vec<u8> = (0..500).flat_map(|i| (i as f32 * 0.3 - 20.0).to_le_bytes()).collect();
        let integers: Vec<u8> = (0..500).flat_map(|i: i32| (i * 77).to_le_bytes()).collect();
        let times: Vec<u8> = (0..500).flat_map(|i: i64| (1_700_000_000_000_000_000 + i).to_le_bytes()).collect();
        assert_eq!(Elements::from_numbers(4, &floats), Some(Elements::of(Element::F32)));
        assert_eq!(Elements::from_numbers(4, &integers), Some(Elements::of(Element::I32)));
        assert_eq!(Elements::from_numbers(8, &times), Some(Elements::of(Element::I64)));
        assert_eq!(Elements::from_numbers(1, &floats), None);
    }
}
