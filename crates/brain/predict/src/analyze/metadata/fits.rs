//! FITS: units with a header of 80-byte cards in records of 2880 bytes, each followed by its data.

use terrace_codec::Element;

use super::window::Window;
use super::{Content, Elements, Span};

const RECORD_BYTES: u64 = 2880;
const CARD_BYTES: usize = 80;
/// At most this many units are examined.
const MAX_STUDIED_UNITS: usize = 64;
/// The maximum number of axes of an array.
const MAX_ARRAY_AXES: usize = 999;

pub fn spans(window: Window) -> Vec<Span> {
    let (mut spans, mut place) = (Vec::new(), 0);
    for _ in 0..MAX_STUDIED_UNITS {
        let Some(unit) = unit(window, place) else { break };
        spans.extend(unit.content.and_then(|content| Span::new(unit.start, unit.length, content)));
        let next = unit.length.checked_next_multiple_of(RECORD_BYTES).and_then(|length| unit.start.checked_add(length));
        match next {
            Some(next) if next > place => place = next,
            _ => break,
        }
    }
    spans
}

struct Unit {
    start: u64,
    length: u64,
    content: Option<Content>,
}

fn unit(window: Window, place: u64) -> Option<Unit> {
    let mut fields = window.at(place)?;
    let mut header = Vec::new();
    loop {
        let card = std::str::from_utf8(fields.take(CARD_BYTES)?).ok()?;
        if card.trim_end() == "END" {
            break;
        }
        if let Some((name, value)) = card.split_once('=') {
            header.push((name.trim(), value.split('/').next().unwrap_or_default().trim()));
        }
    }
    let value = |name: &str| header.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    // A header with a value that is no number tells nothing: the bytes are then analyzed like any others.
    let number = |name: &str| value(name)?.parse::<u64>().ok();
    let bits = value("BITPIX")?;
    let element = match bits {
        "8" => Element::Bytes,
        "16" => Element::I16,
        "32" => Element::I32,
        "64" => Element::I64,
        "-32" => Element::F32,
        "-64" => Element::F64,
        _ => return None,
    };
    let axes = usize::try_from(number("NAXIS")?).ok().filter(|axes| *axes <= MAX_ARRAY_AXES)?;
    let count = (1..=axes).try_fold(1u64, |all, axis| all.checked_mul(number(&format!("NAXIS{axis}"))?))?;
    let count = if axes == 0 { 0 } else { count };
    let count = count.checked_add(number("PCOUNT").unwrap_or(0))?.checked_mul(number("GCOUNT").unwrap_or(1))?;
    let read = window.at(place)?.0.len() - fields.0.len();
    let start = place.checked_add((read as u64).next_multiple_of(RECORD_BYTES))?;
    let content = match value("XTENSION") {
        _ if value("ZIMAGE") == Some("T") => Some(Content::Compressed),
        // The columns of a table have individual types.
        Some(kind) if !kind.contains("IMAGE") => None,
        _ => Some(Content::Numbers(Elements { element, big_endian: true })),
    };
    Some(Unit { start, length: count.checked_mul(element.width() as u64)?, content })
}
