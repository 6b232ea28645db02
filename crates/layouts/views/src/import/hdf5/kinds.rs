//! Conversion of HDF5's types to the language.

use std::collections::HashSet;

use hdf5_reader::{ByteOrder, CompoundField, Datatype, EnumMember, StringSize};

use crate::import::identifier;

/// The byte order of the numbers so far; `None` if unknown.
#[derive(Default)]
pub struct Order(pub Option<bool>);

impl Order {
    fn also(&mut self, size: u64, order: ByteOrder) -> Result<(), String> {
        let big = order == ByteOrder::BigEndian;
        match self.0 {
            _ if size == 1 => Ok(()),
            Some(before) if before != big => Err("its fields are of both byte orders".to_owned()),
            _ => {
                self.0 = Some(big);
                Ok(())
            }
        }
    }
}

/// Formats lengths as `[3, 4]`; empty without dimensions.
pub fn lengths(shape: &[u64]) -> String {
    match shape {
        [] => String::new(),
        shape => format!("[{}]", shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Returns a type in the language, or the reason why there is none.
pub fn kind(datatype: &Datatype, order: &mut Order) -> Result<String, String> {
    Ok(match datatype {
        Datatype::FixedPoint { size: size @ (1 | 2 | 4 | 8), signed, byte_order } => {
            order.also((*size).into(), *byte_order)?;
            format!("{}int{}", if *signed { "" } else { "u" }, u32::from(*size) * 8)
        }
        Datatype::FloatingPoint { size: size @ (2 | 4 | 8), byte_order } => {
            order.also((*size).into(), *byte_order)?;
            format!("float{}", u32::from(*size) * 8)
        }
        Datatype::Bitfield { size: size @ (1 | 2 | 4 | 8), byte_order } => {
            order.also((*size).into(), *byte_order)?;
            format!("uint{}", u32::from(*size) * 8)
        }
        Datatype::Enum { base, members } if is_truth(base, members) => "bool".to_owned(),
        Datatype::Enum { base, .. } => kind(base, order)?,
        Datatype::Array { base, dims } => format!("{}{}", lengths(dims), kind(base, order)?),
        Datatype::String { size: StringSize::Fixed(size), .. } | Datatype::Opaque { size, .. } => {
            format!("[{size}]uint8")
        }
        Datatype::Compound { size, fields } => match complex(*size, fields) {
            Some(order_of) => {
                order.also(2, order_of)?;
                format!("complex{}", size * 8)
            }
            None => compound((*size).into(), fields, order)?,
        },
        Datatype::VarLen { .. } | Datatype::String { .. } => {
            return Err("its elements are of various lengths".to_owned());
        }
        Datatype::Reference { .. } => return Err("its elements are references within the file".to_owned()),
        Datatype::FixedPoint { size, .. } | Datatype::FloatingPoint { size, .. } | Datatype::Bitfield { size, .. } => {
            return Err(format!("its numbers have {size} bytes"));
        }
    })
}

/// Returns whether an enumeration is that of booleans as h5py and PyTables write them.
pub fn is_truth(base: &Datatype, members: &[EnumMember]) -> bool {
    let is_byte = matches!(base, Datatype::FixedPoint { size: 1, .. });
    is_byte && matches!(members, [a, b] if a.name == "FALSE" && b.name == "TRUE")
}

/// Returns the byte order of a complex number as h5py and others write it; `None` if this is not one.
pub fn complex(size: u32, fields: &[CompoundField]) -> Option<ByteOrder> {
    let [real, imaginary] = fields else { return None };
    let names = [("r", "i"), ("re", "im"), ("real", "imag"), ("real", "imaginary")];
    let named = names.contains(&(real.name.as_str(), imaginary.name.as_str()));
    let Datatype::FloatingPoint { size: half @ (4 | 8), byte_order } = &real.datatype else { return None };
    let placed = (real.byte_offset, imaginary.byte_offset, size) == (0, (*half).into(), 2 * u32::from(*half));
    (named && placed && real.datatype == imaginary.datatype).then_some(*byte_order)
}

/// Writes fields at their offsets, with padding between them.
fn compound(size: u64, fields: &[CompoundField], order: &mut Order) -> Result<String, String> {
    let mut fields: Vec<&CompoundField> = fields.iter().collect();
    fields.sort_by_key(|field| field.byte_offset);
    let (mut lines, mut names, mut at) = (Vec::new(), HashSet::new(), 0u64);
    let gap = |lines: &mut Vec<String>, at: u64, to: u64| match to.checked_sub(at) {
        Some(0) => Ok(()),
        Some(length) => {
            lines.push(format!("_padding{at} [{length}]uint8"));
            Ok(())
        }
        None => Err("its fields overlap".to_owned()),
    };
    for field in fields {
        gap(&mut lines, at, field.byte_offset.into())?;
        let name = identifier(&field.name);
        lines.push(format!("{name} {}", kind(&field.datatype, order)?));
        at = u64::from(field.byte_offset).saturating_add(bytes(&field.datatype));
        if !names.insert(name) {
            return Err("two of its fields would have the same name".to_owned());
        }
    }
    gap(&mut lines, at, size)?;
    Ok(format!("struct {{ {} }}", lines.join("; ")))
}

/// Returns the size of an element.
pub fn bytes(datatype: &Datatype) -> u64 {
    match datatype {
        Datatype::FixedPoint { size, .. }
        | Datatype::FloatingPoint { size, .. }
        | Datatype::Bitfield { size, .. }
        | Datatype::Reference { size, .. } => (*size).into(),
        Datatype::String { size: StringSize::Fixed(size), .. }
        | Datatype::Opaque { size, .. }
        | Datatype::Compound { size, .. } => (*size).into(),
        Datatype::Enum { base, .. } => bytes(base),
        Datatype::Array { base, dims } => dims.iter().fold(bytes(base), |all, length| all.saturating_mul(*length)),
        // The language has no such types.
        Datatype::String { .. } | Datatype::VarLen { .. } => 0,
    }
}
