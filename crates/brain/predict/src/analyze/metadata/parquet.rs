//! Parquet: a footer at the end, in Thrift's compact protocol, describes the type, codec and offset of each column
//! chunk. The window must contain the whole file.

use terrace_codec::Element;

use super::window::{Fields, Window};
use super::{Content, Elements, MAX_ENTRIES_PER_WINDOW, Span};

/// The maximum depth of nested structures.
const MAX_STRUCT_DEPTH: usize = 16;
/// The kinds of fields in the compact protocol.
const KIND_TRUE: u8 = 1;
const KIND_FALSE: u8 = 2;
const KIND_BYTE: u8 = 3;
const KIND_DOUBLE: u8 = 7;
const KIND_BINARY: u8 = 8;
const KIND_LIST: u8 = 9;
const KIND_SET: u8 = 10;
const KIND_STRUCT: u8 = 12;
/// Encodings that store the values themselves, or their run lengths.
const PLAIN_ENCODINGS: [i64; 3] = [0, 3, 4];

#[derive(Default)]
struct Chunk {
    kind: i64,
    plain: bool,
    codec: i64,
    length: i64,
    data: i64,
    dictionary: Option<i64>,
}

pub fn spans(window: Window) -> Option<Vec<Span>> {
    let bytes = window.bytes.strip_suffix(b"PAR1")?;
    let (rest, length) = bytes.split_last_chunk::<4>()?;
    let footer = rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
    let mut chunks = Vec::new();
    // FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data.
    structure(&mut Fields(rest.get(footer..)?), 0, &mut |number, kind, fields| match (number, kind) {
        (4, KIND_LIST) => list(fields, 1, &mut |group| {
            structure(group, 2, &mut |number, kind, fields| match (number, kind) {
                (1, KIND_LIST) => list(fields, 3, &mut |column| {
                    structure(column, 4, &mut |number, kind, fields| match (number, kind) {
                        (3, KIND_STRUCT) => {
                            chunks.push(chunk(fields)?);
                            (chunks.len() <= MAX_ENTRIES_PER_WINDOW).then_some(true)
                        }
                        _ => Some(false),
                    })
                })
                .map(|()| true),
                _ => Some(false),
            })
        })
        .map(|()| true),
        _ => Some(false),
    })?;
    Some(chunks.iter().filter_map(Chunk::span).collect())
}

impl Chunk {
    fn span(&self) -> Option<Span> {
        let start = self.dictionary.filter(|start| *start > 0).map_or(self.data, |start| start.min(self.data));
        let content = match self.kind {
            _ if self.codec != 0 => Content::Compressed,
            _ if !self.plain => return None,
            1 => Content::Numbers(Elements::of(Element::I32)),
            2 => Content::Numbers(Elements::of(Element::I64)),
            4 => Content::Numbers(Elements::of(Element::F32)),
            5 => Content::Numbers(Elements::of(Element::F64)),
            _ => return None,
        };
        Span::new(u64::try_from(start).ok()?, u64::try_from(self.length).ok()?, content)
    }
}

/// ColumnMetaData.
fn chunk(fields: &mut Fields) -> Option<Chunk> {
    let mut chunk = Chunk { plain: true, ..Chunk::default() };
    structure(fields, 5, &mut |number, kind, fields| {
        match (number, kind) {
            (1, _) => chunk.kind = zigzag(fields)?,
            (2, KIND_LIST) => {
                let plain = &mut chunk.plain;
                list(fields, 6, &mut |fields| {
                    *plain &= PLAIN_ENCODINGS.contains(&zigzag(fields)?);
                    Some(())
                })?;
            }
            (4, _) => chunk.codec = zigzag(fields)?,
            (7, _) => chunk.length = zigzag(fields)?,
            (9, _) => chunk.data = zigzag(fields)?,
            (11, _) => chunk.dictionary = Some(zigzag(fields)?),
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some(chunk)
}

/// Calls `each` for every field of a structure with its number and kind. Fields that the call does not read are
/// skipped.
fn structure(
    fields: &mut Fields,
    depth: usize,
    visit: &mut dyn FnMut(i64, u8, &mut Fields) -> Option<bool>,
) -> Option<()> {
    (depth < MAX_STRUCT_DEPTH).then_some(())?;
    let mut number = 0;
    loop {
        let head = fields.byte()?;
        if head == 0 {
            return Some(());
        }
        number = match head >> 4 {
            0 => zigzag(fields)?,
            delta => i64::checked_add(number, delta.into())?,
        };
        if !visit(number, head & 0x0F, fields)? {
            pass(fields, head & 0x0F, depth + 1)?;
        }
    }
}

fn list(fields: &mut Fields, depth: usize, visit: &mut dyn FnMut(&mut Fields) -> Option<()>) -> Option<()> {
    (depth < MAX_STRUCT_DEPTH).then_some(())?;
    let (count, _) = head_of_list(fields)?;
    (0..count).try_for_each(|_| visit(fields))
}

fn head_of_list(fields: &mut Fields) -> Option<(u64, u8)> {
    let head = fields.byte()?;
    let count = if head >> 4 == 15 { varint(fields)? } else { u64::from(head >> 4) };
    Some((count, head & 0x0F))
}

fn pass(fields: &mut Fields, kind: u8, depth: usize) -> Option<()> {
    match kind {
        KIND_TRUE | KIND_FALSE => Some(()),
        KIND_BYTE => fields.skip(1),
        KIND_DOUBLE => fields.skip(8),
        KIND_BINARY => {
            let length = usize::try_from(varint(fields)?).ok()?;
            fields.skip(length)
        }
        KIND_LIST | KIND_SET => {
            (depth < MAX_STRUCT_DEPTH).then_some(())?;
            let (count, kind) = head_of_list(fields)?;
            // A flag in a list takes a byte, unlike one in a structure.
            let kind = if matches!(kind, KIND_TRUE | KIND_FALSE) { KIND_BYTE } else { kind };
            (0..count).try_for_each(|_| pass(fields, kind, depth + 1))
        }
        KIND_STRUCT => structure(fields, depth, &mut |_, _, _| Some(false)),
        4..=6 => varint(fields).map(drop),
        // Parquet uses no maps.
        _ => None,
    }
}

fn varint(fields: &mut Fields) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = fields.byte()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn zigzag(fields: &mut Fields) -> Option<i64> {
    let number = varint(fields)?;
    Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
}
