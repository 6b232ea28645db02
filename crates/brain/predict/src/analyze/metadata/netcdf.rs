//! NetCDF classic, 64-bit offset and 64-bit data: a header with all variables and their offsets; big-endian numbers.

use terrace_codec::Element;

use super::window::{Fields, Window};
use super::{Content, Elements, MAX_ENTRIES_PER_WINDOW, Span};

/// The tags of lists in the header.
const TAG_DIMENSIONS: u64 = 0x0A;
const TAG_VARIABLES: u64 = 0x0B;
const TAG_ATTRIBUTES: u64 = 0x0C;
/// Writers that do not know the number of records store this.
const UNKNOWN_RECORD_COUNT: u64 = u32::MAX as u64;

/// The widths of numbers, which depend on the version.
#[derive(Clone, Copy)]
struct Widths {
    count: usize,
    place: usize,
}

struct Variable {
    elements: Elements,
    records: bool,
    length: u64,
    start: u64,
}

pub fn spans(window: Window) -> Option<Vec<Span>> {
    let mut fields = window.at(3)?;
    let widths = match fields.byte()? {
        1 => Widths { count: 4, place: 4 },
        2 => Widths { count: 4, place: 8 },
        _ => Widths { count: 8, place: 8 },
    };
    let records = fields.big(widths.count)?;
    let mut unlimited = None;
    for number in 0..list(&mut fields, TAG_DIMENSIONS, widths)? {
        name(&mut fields, widths)?;
        if fields.big(widths.count)? == 0 {
            unlimited = Some(number);
        }
    }
    attributes(&mut fields, widths)?;
    let mut variables = Vec::new();
    for _ in 0..list(&mut fields, TAG_VARIABLES, widths)? {
        variables.push(variable(&mut fields, widths, unlimited)?);
        if variables.len() > MAX_ENTRIES_PER_WINDOW {
            return None;
        }
    }
    let mut spans = Vec::new();
    for variable in variables.iter().filter(|variable| !variable.records) {
        spans.extend(Span::new(variable.start, variable.length, Content::Numbers(variable.elements)));
    }
    let recorded: Vec<&Variable> = variables.iter().filter(|variable| variable.records).collect();
    spans.extend(in_records(&recorded, if records == UNKNOWN_RECORD_COUNT { 0 } else { records }));
    Some(spans)
}

/// Variables along the record dimension are interleaved, one record after another.
fn in_records(variables: &[&Variable], records: u64) -> Vec<Span> {
    let stride = variables.iter().map(|variable| variable.length).fold(0, u64::saturating_add);
    let Some(first) = variables.first() else { return Vec::new() };
    if variables.iter().all(|variable| variable.elements == first.elements) {
        let start = variables.iter().map(|variable| variable.start).min().unwrap_or(first.start);
        let all = Span::new(start, stride.saturating_mul(records), Content::Numbers(first.elements));
        return all.into_iter().collect();
    }
    let places = (0..records).flat_map(|record| variables.iter().map(move |variable| (record, variable)));
    let span = |(record, variable): (u64, &&Variable)| {
        let start = variable.start.checked_add(record.checked_mul(stride)?)?;
        Span::new(start, variable.length, Content::Numbers(variable.elements))
    };
    places.take(MAX_ENTRIES_PER_WINDOW).filter_map(span).collect()
}

/// Returns the number of entries of a list. Two zeros stand for an absent list.
fn list(fields: &mut Fields, tag: u64, widths: Widths) -> Option<u64> {
    let found = fields.big(4)?;
    let count = fields.big(widths.count)?;
    (found == tag || found == 0 && count == 0).then_some(count)
}

fn name(fields: &mut Fields, widths: Widths) -> Option<()> {
    let length = usize::try_from(fields.big(widths.count)?).ok()?;
    fields.skip(length.checked_next_multiple_of(4)?)
}

fn attributes(fields: &mut Fields, widths: Widths) -> Option<()> {
    for _ in 0..list(fields, TAG_ATTRIBUTES, widths)? {
        name(fields, widths)?;
        let width = elements(fields.big(4)?)?.element.width();
        let count = usize::try_from(fields.big(widths.count)?).ok()?;
        fields.skip(count.checked_mul(width)?.checked_next_multiple_of(4)?)?;
    }
    Some(())
}

fn variable(fields: &mut Fields, widths: Widths, unlimited: Option<u64>) -> Option<Variable> {
    name(fields, widths)?;
    let mut records = false;
    for number in 0..fields.big(widths.count)? {
        let dimension = fields.big(widths.count)?;
        records |= number == 0 && Some(dimension) == unlimited;
    }
    attributes(fields, widths)?;
    let elements = elements(fields.big(4)?)?;
    let length = fields.big(widths.count)?;
    let start = fields.big(widths.place)?;
    Some(Variable { elements, records, length, start })
}

fn elements(kind: u64) -> Option<Elements> {
    let element = match kind {
        1 | 2 | 7 => Element::Bytes,
        3 => Element::I16,
        4 => Element::I32,
        5 => Element::F32,
        6 => Element::F64,
        8 => Element::U16,
        9 => Element::U32,
        10 => Element::I64,
        11 => Element::U64,
        _ => return None,
    };
    Some(Elements { element, big_endian: true })
}

#[cfg(test)]
mod tests {
    use super::super::Metadata;
    use super::*;
    use crate::analyze::Format;

    fn put(out: &mut Vec<u8>, numbers: &[u32]) {
        numbers.iter().for_each(|number| out.extend(number.to_be_bytes()));
    }

    fn named(out: &mut Vec<u8>, name: &str) {
        put(out, &[name.len() as u32]);
        out.extend(name.as_bytes());
        out.resize(out.len().next_multiple_of(4), 0);
    }

    /// Makes a file with two dimensions, an attribute, a fixed variable of doubles, and two record variables: floats
    /// and shorts.
    fn file() -> Vec<u8> {
        let mut out = b"CDF\x01".to_vec();
        put(&mut out, &[3, 0x0A, 2]);
        named(&mut out, "time");
        put(&mut out, &[0]);
        named(&mut out, "x");
        put(&mut out, &[100]);
        put(&mut out, &[0x0C, 1]);
        named(&mut out, "title");
        put(&mut out, &[2, 5]);
        out.extend(b"field\0\0\0");
        put(&mut out, &[0x0B, 3]);
        for (name, dimensions, kind, length, start) in
            [("x", &[1][..], 6, 800, 1000), ("a", &[0, 1], 5, 400, 1800), ("b", &[0, 1], 3, 200, 2200)]
        {
            named(&mut out, name);
            put(&mut out, &[dimensions.len() as u32]);
            put(&mut out, dimensions);
            put(&mut out, &[0, 0, kind, length, start]);
        }
        out
    }

    #[test]
    fn variables_have_their_types_and_places() {
        let of = |element| Content::Numbers(Elements { element, big_endian: true });
        let found: Vec<_> = Metadata::new(Format::NetCdf)
            .parse(0, &file())
            .iter()
            .map(|span| (span.start, span.end, span.content))
            .collect();
        let mut expected = vec![(1000, 1800, of(Element::F64))];
        for record in 0..3 {
            expected.push((1800 + 600 * record, 2200 + 600 * record, of(Element::F32)));
            expected.push((2200 + 600 * record, 2400 + 600 * record, of(Element::I16)));
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn a_truncated_header_gives_no_spans() {
        let file = file();
        for length in 0..file.len() {
            assert_eq!(Metadata::new(Format::NetCdf).parse(0, &file[..length]), []);
        }
    }
}
