//! Types of elements.

use terrace_codec::Element;

use super::super::Elements;
use super::super::window::Fields;

/// Types within types, at most.
const DEPTH: usize = 4;
/// Members of a compound that are looked at, at most.
const MEMBERS: usize = 64;

/// The numbers that a type is made of, if they are all the same.
pub fn elements(fields: Fields) -> Option<Elements> {
    read(&mut { fields }, 0)
}

/// Reads one type, all of it.
fn read(fields: &mut Fields, depth: usize) -> Option<Elements> {
    (depth < DEPTH).then_some(())?;
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
            // The order of a VAX is neither.
            (bits & 0x40 == 0).then_some(Elements { element, big_endian: bits & 1 > 0 })
        }
        6 => compound(fields, version, size, bits & 0xFFFF, depth),
        // An enumeration, an array: their base comes first, or last.
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

/// Members of one type, as complex numbers have, or records of eight numbers of four bytes.
fn compound(fields: &mut Fields, version: u8, size: usize, members: u64, depth: usize) -> Option<Elements> {
    let mut all = Vec::new();
    for _ in 0..members {
        (all.len() < MEMBERS).then_some(())?;
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
