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
    visit_struct(&mut Fields(rest.get(footer..)?), 0, &mut |number, kind, fields| match (number, kind) {
        (4, KIND_LIST) => visit_list(fields, 1, &mut |group| {
            visit_struct(group, 2, &mut |number, kind, fields| match (number, kind) {
                (1, KIND_LIST) => visit_list(fields, 3, &mut |column| {
                    visit_struct(column, 4, &mut |number, kind, fields| match (number, kind) {
                        (3, KIND_STRUCT) => {
                            chunks.push(read_chunk(fields)?);
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

/// Reads a ColumnMetaData.
fn read_chunk(fields: &mut Fields) -> Option<Chunk> {
    let mut chunk = Chunk { plain: true, ..Chunk::default() };
    visit_struct(fields, 5, &mut |number, kind, fields| {
        match (number, kind) {
            (1, _) => chunk.kind = read_zigzag(fields)?,
            (2, KIND_LIST) => {
                let plain = &mut chunk.plain;
                visit_list(fields, 6, &mut |fields| {
                    *plain &= PLAIN_ENCODINGS.contains(&read_zigzag(fields)?);
                    Some(())
                })?;
            }
            (4, _) => chunk.codec = read_zigzag(fields)?,
            (7, _) => chunk.length = read_zigzag(fields)?,
            (9, _) => chunk.data = read_zigzag(fields)?,
            (11, _) => chunk.dictionary = Some(read_zigzag(fields)?),
            _ => return Some(false),
        }
        Some(true)
    })?;
    Some(chunk)
}

/// Calls `visit` with the number and kind of every field of a structure. It returns whether it has read the field; other fields are
/// skipped.
fn visit_struct(
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
            0 => read_zigzag(fields)?,
            delta => i64::checked_add(number, delta.into())?,
        };
        if !visit(number, head & 0x0F, fields)? {
            skip_field(fields, head & 0x0F, depth + 1)?;
        }
    }
}

fn visit_list(fields: &mut Fields, depth: usize, visit: &mut dyn FnMut(&mut Fields) -> Option<()>) -> Option<()> {
    (depth < MAX_STRUCT_DEPTH).then_some(())?;
    let (count, _) = read_list_head(fields)?;
    (0..count).try_for_each(|_| visit(fields))
}

fn read_list_head(fields: &mut Fields) -> Option<(u64, u8)> {
    let head = fields.byte()?;
    let count = if head >> 4 == 15 { read_varint(fields)? } else { u64::from(head >> 4) };
    Some((count, head & 0x0F))
}

fn skip_field(fields: &mut Fields, kind: u8, depth: usize) -> Option<()> {
    match kind {
        KIND_TRUE | KIND_FALSE => Some(()),
        KIND_BYTE => fields.skip(1),
        KIND_DOUBLE => fields.skip(8),
        KIND_BINARY => {
            let length = usize::try_from(read_varint(fields)?).ok()?;
            fields.skip(length)
        }
        KIND_LIST | KIND_SET => {
            (depth < MAX_STRUCT_DEPTH).then_some(())?;
            let (count, kind) = read_list_head(fields)?;
            // A flag in a list takes a byte, unlike one in a structure.
            let kind = if matches!(kind, KIND_TRUE | KIND_FALSE) { KIND_BYTE } else { kind };
            (0..count).try_for_each(|_| skip_field(fields, kind, depth + 1))
        }
        KIND_STRUCT => visit_struct(fields, depth, &mut |_, _, _| Some(false)),
        4..=6 => read_varint(fields).map(drop),
        // Parquet uses no maps.
        _ => None,
    }
}

fn read_varint(fields: &mut Fields) -> Option<u64> {
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

fn read_zigzag(fields: &mut Fields) -> Option<i64> {
    let number = read_varint(fields)?;
    Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
}
