//! The head of an HDF5 file whose datasets lie in one piece behind it (HDF5 File Format Specification 3.0: superblock 2, object
//! headers 2, contiguous layout).

use terrace_views::layout::{Described, Element};
use terrace_views::model::Primitive;

use super::lookup3::lookup3;
use crate::{Error, Result};

const SUPERBLOCK: usize = 48;
const NOWHERE: u64 = u64::MAX;
/// Data begins at a multiple of this, so that it can be mapped.
const PAGE: usize = 4096;

/// The bytes before the data: superblock, the root group, and a header for each variable.
pub fn head(variables: &[Described], length: u64) -> Result<Vec<u8>> {
    // Where headers lie depends on how long they are, not on the addresses in them.
    let size = |addresses: &[u64], data: u64| -> Result<(Vec<Vec<u8>>, Vec<u8>)> {
        let datasets: Result<Vec<Vec<u8>>> = variables.iter().map(|one| dataset(one, data)).collect();
        Ok((datasets?, group(variables, addresses)?))
    };
    let zeros = vec![0; variables.len()];
    let (datasets, root) = size(&zeros, 0)?;
    let mut at = SUPERBLOCK + root.len();
    let mut addresses = Vec::new();
    for dataset in &datasets {
        addresses.push(at as u64);
        at += dataset.len();
    }
    let data = at.next_multiple_of(PAGE);
    let (datasets, root) = size(&addresses, data as u64)?;
    let mut out = superblock(data as u64 + length);
    out.extend(root);
    datasets.iter().for_each(|dataset| out.extend(dataset));
    out.resize(data, 0);
    Ok(out)
}

fn superblock(end: u64) -> Vec<u8> {
    let mut out = b"\x89HDF\r\n\x1a\n".to_vec();
    out.extend([2, 8, 8, 0]);
    for address in [0, NOWHERE, end, SUPERBLOCK as u64] {
        out.extend(address.to_le_bytes());
    }
    out.extend(lookup3(&out).to_le_bytes());
    out
}

/// An object header of messages: type and bytes.
fn header(messages: &[(u8, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    for (kind, bytes) in messages {
        let length = u16::try_from(bytes.len());
        let length = length.map_err(|_| Error::Refused("a type is too large for HDF5".to_owned()))?;
        body.push(*kind);
        body.extend(length.to_le_bytes());
        body.push(0);
        body.extend(bytes);
    }
    let mut out = b"OHDR\x02\x02".to_vec();
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    out.extend(lookup3(&out).to_le_bytes());
    Ok(out)
}

fn group(variables: &[Described], addresses: &[u64]) -> Result<Vec<u8>> {
    let none = NOWHERE.to_le_bytes();
    let mut messages = vec![(0x02, [&[0, 0], &none[..], &none[..]].concat()), (0x0a, vec![0, 0])];
    for (variable, address) in variables.iter().zip(addresses) {
        // A hard link whose name has a length of two bytes.
        let name = variable.name.as_bytes();
        let mut link = vec![1, 1];
        link.extend((name.len() as u16).to_le_bytes());
        link.extend(name);
        link.extend(address.to_le_bytes());
        messages.push((0x06, link));
    }
    header(&messages)
}

fn dataset(variable: &Described, data: u64) -> Result<Vec<u8>> {
    let mut space = vec![2, variable.lengths.len() as u8, 0, u8::from(!variable.lengths.is_empty())];
    variable.lengths.iter().for_each(|length| space.extend(length.to_le_bytes()));
    let mut kind = Vec::new();
    datatype(&variable.element, &mut kind)?;
    let address = if variable.size == 0 { NOWHERE } else { data + variable.offset };
    let mut layout = vec![3, 1];
    layout.extend(address.to_le_bytes());
    layout.extend(variable.size.to_le_bytes());
    // Zeros where nothing was written.
    header(&[(0x01, space), (0x03, kind), (0x05, vec![3, 0x09]), (0x08, layout)])
}

/// A datatype message: class and version, bits, size, properties.
fn datatype(element: &Element, out: &mut Vec<u8>) -> Result<()> {
    let size = element.size();
    let bytes = u32::try_from(size).map_err(|_| Error::Refused("an element is too large for HDF5".to_owned()))?;
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
            // Offsets take as many bytes as the size needs.
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
                let length = length.map_err(|_| Error::Refused("an element is too large for HDF5".to_owned()))?;
                out.extend(length.to_le_bytes());
            }
            datatype(inner, out)?;
        }
    }
    Ok(())
}

fn number(primitive: Primitive, big: bool, out: &mut Vec<u8>) -> Result<()> {
    use Primitive::*;
    let size = primitive.size() as u32;
    let order = u8::from(big);
    let integer = |signed: bool, out: &mut Vec<u8>| {
        out.extend([0x10, order | u8::from(signed) << 3, 0, 0]);
        out.extend(size.to_le_bytes());
        out.extend([0, 0]);
        out.extend((8 * size as u16).to_le_bytes());
    };
    // Bits of exponent and mantissa.
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
