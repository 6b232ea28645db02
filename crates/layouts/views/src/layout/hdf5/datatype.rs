//! The types of HDF5 datasets.

use super::super::Element;
use crate::model::{Misfit, Primitive};

fn too_large() -> Misfit {
    Misfit::NoHdf5("an element is too large for that".to_owned())
}

/// Appends a datatype message: class and version, bits, size, properties.
pub fn datatype(element: &Element, out: &mut Vec<u8>) -> Result<(), Misfit> {
    let size = element.size();
    let bytes = u32::try_from(size).map_err(|_| too_large())?;
    let begin = |class: u8, bits: [u8; 3], out: &mut Vec<u8>| {
        out.push(class);
        out.extend(bits);
        out.extend(bytes.to_le_bytes());
    };
    match element {
        Element::Primitive(primitive, big) => return number(*primitive, *big, out),
        Element::Struct(members, _) => {
            let count = (members.len() as u16).to_le_bytes();
            begin(0x36, [count[0], count[1], 0], out);
            // The width of offsets depends on the size.
            let width = (8 - size.leading_zeros() as usize / 8).max(1);
            for (name, offset, member) in members {
                out.extend(name.as_bytes());
                out.push(0);
                out.extend(offset.to_le_bytes().iter().take(width));
                datatype(member, out)?;
            }
        }
        Element::Array(lengths, inner) => {
            begin(0x3a, [0; 3], out);
            out.push(lengths.len() as u8);
            for length in lengths {
                let length = u32::try_from(*length);
                let length = length.map_err(|_| too_large())?;
                out.extend(length.to_le_bytes());
            }
            datatype(inner, out)?;
        }
    }
    Ok(())
}

fn number(primitive: Primitive, big: bool, out: &mut Vec<u8>) -> Result<(), Misfit> {
    use Primitive::*;
    let size = primitive.size() as u32;
    let order = u8::from(big);
    let integer = |signed: bool, out: &mut Vec<u8>| {
        out.extend([0x10, order | u8::from(signed) << 3, 0, 0]);
        out.extend(size.to_le_bytes());
        out.extend([0, 0]);
        out.extend((8 * size as u16).to_le_bytes());
    };
    // The numbers of bits of exponent and mantissa.
    let float = |size: u32, exponent: u8, mantissa: u8, out: &mut Vec<u8>| {
        out.extend([0x11, order | 0x20, 8 * size as u8 - 1, 0]);
        out.extend(size.to_le_bytes());
        out.extend([0, 0]);
        out.extend((8 * size as u16).to_le_bytes());
        out.extend([mantissa, exponent, 0, mantissa]);
        out.extend(((1u32 << (exponent - 1)) - 1).to_le_bytes());
    };
    let pair = |names: [&str; 2], parts: [Element; 2]| {
        let [first, second] = parts;
        let at = first.size();
        let end = at + second.size();
        Element::Struct(vec![(names[0].to_owned(), 0, first), (names[1].to_owned(), at, second)], end)
    };
    match primitive {
        Int8 | Int16 | Int32 | Int64 => integer(true, out),
        Uint8 | Uint16 | Uint32 | Uint64 | Bool => integer(false, out),
        Float16 => float(2, 5, 10, out),
        Float32 => float(4, 8, 23, out),
        Float64 => float(8, 11, 52, out),
        Complex64 => {
            let part = Element::Primitive(Float32, big);
            return datatype(&pair(["r", "i"], [part.clone(), part]), out);
        }
        Complex128 => {
            let part = Element::Primitive(Float64, big);
            return datatype(&pair(["r", "i"], [part.clone(), part]), out);
        }
        String(most) => {
            let text = Element::Array(vec![u64::from(most)], Box::new(Element::Primitive(Uint8, false)));
            return datatype(&pair(["length", "text"], [Element::Primitive(Int16, big), text]), out);
        }
    }
    Ok(())
}
