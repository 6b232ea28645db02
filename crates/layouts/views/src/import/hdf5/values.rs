//! Attributes and fill values.

use hdf5_reader::{Attribute, ByteOrder, Datatype, StringPadding, StringSize};

use super::kinds::{complex, is_truth};
use crate::import::identifier;
use crate::model::{Items, Primitive, Value};

/// Returns the value of an attribute, or the reason why the language has none for it.
pub fn value(attribute: &Attribute) -> Result<Value, String> {
    let (mut lengths, mut datatype) = (attribute.shape.clone(), &attribute.datatype);
    while let Datatype::Array { base, dims } = datatype {
        lengths.extend(dims);
        datatype = base;
    }
    if lengths.contains(&0) {
        lengths = vec![0];
    }
    let count = lengths.iter().try_fold(1u64, |count, length| count.checked_mul(*length)).ok_or("it is too large")?;
    let items = match datatype {
        Datatype::String { size: StringSize::Fixed(size), padding, .. } => {
            // NetCDF writes an empty text so.
            if count == 0 {
                return Ok(Value { lengths: Vec::new(), items: Items::Char(vec![String::new()]) });
            }
            let size = *size as usize;
            let texts = checked(&attribute.raw_data, count, size)?.chunks(size).map(|bytes| text(bytes, padding));
            Items::Char(texts.collect::<Result<_, _>>()?)
        }
        Datatype::String { .. } | Datatype::VarLen { .. } => match attribute.read_strings() {
            Ok(texts) if texts.len() as u64 == count => Items::Text(texts),
            // A single text is resolved in another way.
            _ if count == 1 => {
                Items::Text(vec![attribute.read_string().map_err(|_| "its items are of various lengths")?])
            }
            _ => return Err("its items are of various lengths".to_owned()),
        },
        other => {
            let (primitive, big) = number(other)?;
            let bytes = checked(&attribute.raw_data, count, primitive.size() as usize)?;
            Items::Numbers(primitive, little(bytes, primitive, big))
        }
    };
    Ok(Value { lengths, items })
}

/// Returns the bytes of this number of items.
fn checked(bytes: &[u8], count: u64, size: usize) -> Result<&[u8], String> {
    let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(size)).filter(|_| size > 0);
    length.and_then(|length| bytes.get(..length)).ok_or_else(|| "it is damaged".to_owned())
}

fn text(bytes: &[u8], padding: &StringPadding) -> Result<String, String> {
    let end = match padding {
        StringPadding::NullTerminate => bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()),
        StringPadding::NullPad => bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1),
        StringPadding::SpacePad => bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1),
    };
    String::from_utf8(bytes.get(..end).unwrap_or_default().to_vec()).map_err(|_| "its text is not UTF-8".to_owned())
}

/// Returns the type of numbers, and whether they are big-endian.
fn number(datatype: &Datatype) -> Result<(Primitive, bool), String> {
    use Primitive::*;
    let is_big = |order: &ByteOrder| *order == ByteOrder::BigEndian;
    Ok(match datatype {
        Datatype::FixedPoint { size, signed, byte_order } => {
            let primitive = match (size, signed) {
                (1, true) => Int8,
                (2, true) => Int16,
                (4, true) => Int32,
                (8, true) => Int64,
                (1, false) => Uint8,
                (2, false) => Uint16,
                (4, false) => Uint32,
                (8, false) => Uint64,
                _ => return Err(format!("its numbers have {size} bytes")),
            };
            (primitive, is_big(byte_order))
        }
        Datatype::Bitfield { size, byte_order } => {
            number(&Datatype::FixedPoint { size: *size, signed: false, byte_order: *byte_order })?
        }
        Datatype::FloatingPoint { size, byte_order } => {
            let primitive = match size {
                2 => Float16,
                4 => Float32,
                8 => Float64,
                _ => return Err(format!("its numbers have {size} bytes")),
            };
            (primitive, is_big(byte_order))
        }
        Datatype::Enum { base, members } if is_truth(base, members) => (Bool, false),
        Datatype::Enum { base, .. } => number(base)?,
        Datatype::Reference { .. } => return Err("its items are references within the file".to_owned()),
        Datatype::Compound { .. } => return Err("its items are compounds".to_owned()),
        Datatype::Opaque { .. } => return Err("its items are opaque".to_owned()),
        Datatype::String { .. } | Datatype::VarLen { .. } | Datatype::Array { .. } => {
            return Err("its items are texts or lists".to_owned());
        }
    })
}

/// Returns numbers with their lowest byte first.
fn little(bytes: &[u8], primitive: Primitive, big: bool) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if big {
        bytes.chunks_mut(primitive.size() as usize).for_each(<[u8]>::reverse);
    }
    bytes
}

/// The paths of members that are no struct, with their fill values: a value, or why there is none.
pub type Fills = Vec<(String, Result<Value, String>)>;

/// Collects the fill values in the bytes of an element, if they are not zero.
pub fn fills(datatype: &Datatype, bytes: &[u8], path: &str, all: &mut Fills) {
    if bytes.iter().all(|byte| *byte == 0) {
        return;
    }
    match datatype {
        Datatype::Compound { size, fields } if complex(*size, fields).is_none() => {
            for field in fields {
                let start = field.byte_offset as usize;
                let path = format!("{path}.{}", identifier(&field.name));
                let size = super::kinds::bytes(&field.datatype) as usize;
                let bytes = start.checked_add(size).and_then(|end| bytes.get(start..end));
                fills(&field.datatype, bytes.unwrap_or_default(), &path, all);
            }
        }
        Datatype::Array { base, .. } => {
            let size = (super::kinds::bytes(base) as usize).max(1);
            let first = bytes.get(..size).unwrap_or_default();
            if bytes.chunks(size).all(|other| other == first) {
                fills(base, first, path, all);
            } else {
                all.push((path.to_owned(), Err("it has different values".to_owned())));
            }
        }
        other => {
            let value = number(other).and_then(|(primitive, big)| {
                let bytes = checked(bytes, 1, primitive.size() as usize)?;
                Ok(Value { lengths: Vec::new(), items: Items::Numbers(primitive, little(bytes, primitive, big)) })
            });
            all.push((path.to_owned(), value));
        }
    }
}

/// Returns the path of the member that an attribute of a compound's dataset belongs to, and the rest of its name: HDF5 has no
/// attributes of members, and exports name them so.
pub fn member<'a>(datatype: &Datatype, name: &'a str) -> Option<(String, &'a str)> {
    let Datatype::Compound { fields, .. } = datatype else { return None };
    fields.iter().find_map(|field| {
        let rest = name.strip_prefix(&field.name)?.strip_prefix('.')?;
        let inner = match &field.datatype {
            Datatype::Array { base, .. } => base,
            other => other,
        };
        let own = identifier(&field.name);
        match inner {
            Datatype::Compound { size, fields } if complex(*size, fields).is_none() => {
                member(inner, rest).map(|(path, rest)| (format!("{own}.{path}"), rest))
            }
            _ => Some((own, rest)),
        }
    })
}
