//! Types of elements.

use terrace_codec::Element;

use super::super::Elements;
use super::super::window::Fields;

/// The maximum depth of nested types.
const MAX_TYPE_DEPTH: usize = 4;
/// At most this many members of a compound are examined.
const MAX_COMPOUND_MEMBERS: usize = 64;

/// Returns the numbers that a type consists of, if they are all equal.
pub fn elements(fields: Fields) -> Option<Elements> {
    read(&mut { fields }, 0)
}

/// Reads one complete type.
fn read(fields: &mut Fields, depth: usize) -> Option<Elements> {
    (depth < MAX_TYPE_DEPTH).then_some(())?;
    let head = fields.byte()?;
    let (version, class) = (head >> 4, head & 0x0F);
    let bits = fields.little(3)?;
    let size = fields.count(4)?;
    match class {
        0 => {
            fields.skip(4)?;
            number(size, bits & 8 > 0, bits & 1 > 0)
        }
        1 => {
            fields.skip(12)?;
            let element = match size {
                2 => Element::I16,
                4 => Element::F32,
                8 => Element::F64,
                _ => return None,
            };
            // The VAX byte order is neither little- nor big-endian.
            (bits & 0x40 == 0).then_some(Elements { element, big_endian: bits & 1 > 0 })
        }
        6 => compound(fields, version, size, bits & 0xFFFF, depth),
        // An enumeration begins with its base type, an array ends with it.
        8 => read(fields, depth + 1),
        10 => {
            let dimensions = usize::from(fields.byte()?);
            fields.skip(if version < 3 { 3 + 8 * dimensions } else { 4 * dimensions })?;
            read(fields, depth + 1)
        }
        _ => None,
    }
}

fn number(size: usize, signed: bool, big_endian: bool) -> Option<Elements> {
    let element = match (size, signed) {
        (1, _) => Element::Bytes,
        (2, true) => Element::I16,
        (2, false) => Element::U16,
        (4, true) => Element::I32,
        (4, false) => Element::U32,
        (8, true) => Element::I64,
        (8, false) => Element::U64,
        _ => return None,
    };
    Some(Elements { element, big_endian })
}

/// Reads a compound of members of one type, such as a complex number, or a record of eight 4-byte numbers.
fn compound(fields: &mut Fields, version: u8, size: usize, members: u64, depth: usize) -> Option<Elements> {
    let mut all = Vec::new();
    for _ in 0..members {
        (all.len() < MAX_COMPOUND_MEMBERS).then_some(())?;
        let name = fields.0.iter().position(|byte| *byte == 0)? + 1;
        if version < 3 {
            fields.skip(name.next_multiple_of(8))?;
            fields.skip(if version == 1 { 4 + 28 } else { 4 })?;
        } else {
            fields.skip(name)?;
            fields.skip(1 + usize::try_from(size.max(1).ilog2() / 8).ok()?)?;
        }
        all.push(read(fields, depth + 1)?);
    }
    let first = *all.first()?;
    let width = first.element.width();
    if width * all.len() != size || all.iter().any(|member| member.element.width() != width) {
        return None;
    }
    if all.iter().all(|member| *member == first) {
        return Some(first);
    }
    (size == Element::Record32.width() && width == 4 && !first.big_endian).then_some(Elements::of(Element::Record32))
}
