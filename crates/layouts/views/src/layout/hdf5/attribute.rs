//! Attributes of HDF5 objects.

use super::super::Element;
use super::datatype::datatype;
use super::heap::Heap;
use crate::model::{Attribute, Items, Misfit, Primitive, Value};

/// The type of a message that is an attribute.
pub const ATTRIBUTE_MESSAGE: u8 = 0x0c;
const UTF8_CHARACTER_SET: u8 = 1;

/// A message of an object's header: its type and bytes.
pub type Message = (u8, Vec<u8>);

/// Returns the message of an attribute.
pub fn attribute(name: &str, value: &Value, heap: &mut Heap) -> Result<Message, Misfit> {
    let mut kind = Vec::new();
    let data = match &value.items {
        Items::Text(texts) => {
            text_of_any_length(&mut kind);
            let references: Result<Vec<_>, _> =
                texts.iter().map(|text| heap.add(text.len() as u32, text.as_bytes())).collect();
            references?.concat()
        }
        Items::Char(texts) => characters(texts, &mut kind),
        Items::Numbers(Primitive::Bool, bytes) => {
            truth(&mut kind);
            bytes.clone()
        }
        Items::Numbers(primitive, bytes) => {
            datatype(&Element::Primitive(*primitive, false), &mut kind)?;
            bytes.clone()
        }
    };
    message(name, &kind, &value.lengths, &data)
}

/// Returns the message of an attribute that is one text, as HDF5's own libraries write it.
pub fn text(name: &str, text: &str) -> Result<Message, Misfit> {
    let mut kind = vec![0x13, 0, 0, 0];
    kind.extend((text.len() as u32 + 1).to_le_bytes());
    message(name, &kind, &[], &[text.as_bytes(), &[0]].concat())
}

/// Returns the message of an attribute that names the scales of a dataset's dimensions by their addresses.
pub fn scales_of_dimensions(addresses: &[u64], heap: &mut Heap) -> Result<Message, Misfit> {
    // Lists of references to objects.
    let mut kind = vec![0x19, 0, 0, 0, 16, 0, 0, 0];
    kind.extend([0x17, 0, 0, 0, 8, 0, 0, 0]);
    let lists: Result<Vec<_>, _> = addresses.iter().map(|address| heap.add(1, &address.to_le_bytes())).collect();
    message("DIMENSION_LIST", &kind, &[addresses.len() as u64], &lists?.concat())
}

/// Returns the messages of a variable's attributes. HDF5 has none for members, so they are the variable's, named MEMBER.NAME.
pub fn attributes(
    own: &[Attribute],
    members: &[(String, Vec<Attribute>)],
    heap: &mut Heap,
) -> Result<Vec<Message>, Misfit> {
    let own = own.iter().map(|one| (one.name.clone(), &one.value));
    let of_members =
        members.iter().flat_map(|(path, own)| own.iter().map(move |one| (format!("{path}.{}", one.name), &one.value)));
    own.chain(of_members).map(|(name, value)| attribute(&name, value, heap)).collect()
}

/// Version 3 of the message, with the name in UTF-8.
fn message(name: &str, kind: &[u8], lengths: &[u64], data: &[u8]) -> Result<Message, Misfit> {
    let mut space = vec![2, lengths.len() as u8, 0, u8::from(!lengths.is_empty())];
    lengths.iter().for_each(|length| space.extend(length.to_le_bytes()));
    let too_long = |_| Misfit::NoHdf5(format!("the name of the attribute `{name}` is too long for that"));
    let length = u16::try_from(name.len() + 1).map_err(too_long)?;
    let mut out = vec![3, 0];
    for length in [length, kind.len() as u16, space.len() as u16] {
        out.extend(length.to_le_bytes());
    }
    out.push(UTF8_CHARACTER_SET);
    out.extend(name.as_bytes());
    out.push(0);
    out.extend(kind);
    out.extend(space);
    out.extend(data);
    match u16::try_from(out.len()) {
        Ok(_) => Ok((ATTRIBUTE_MESSAGE, out)),
        Err(_) => Err(Misfit::NoHdf5(format!("its attribute `{name}` is longer than 64 KiB"))),
    }
}

/// Texts of any length are lists of bytes.
fn text_of_any_length(kind: &mut Vec<u8>) {
    kind.extend([0x19, 1, UTF8_CHARACTER_SET, 0, 16, 0, 0, 0]);
    kind.extend([0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0]);
}

/// Writes the type of texts with padding to the longest one, and returns these.
fn characters(texts: &[String], kind: &mut Vec<u8>) -> Vec<u8> {
    let longest = texts.iter().map(String::len).max().unwrap_or(0).max(1);
    let set = if texts.iter().all(|text| text.is_ascii()) { 0 } else { UTF8_CHARACTER_SET };
    kind.extend([0x13, 1 | set << 4, 0, 0]);
    kind.extend((longest as u32).to_le_bytes());
    let padded = |text: &String| {
        let mut bytes = text.clone().into_bytes();
        bytes.resize(longest, 0);
        bytes
    };
    texts.iter().flat_map(padded).collect()
}

/// Booleans are an enumeration, as h5py writes it.
fn truth(kind: &mut Vec<u8>) {
    kind.extend([0x38, 2, 0, 0, 1, 0, 0, 0]);
    kind.extend([0x10, 8, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0]);
    kind.extend(b"FALSE\0TRUE\0\x00\x01");
}
