//! The table in front of a payload with fields.

use super::super::{Result, text};
use crate::{CodecId, Encoding};

/// The bytes before the rows: the number of fields, and that of the bytes before the first record.
const FIXED_BYTES: usize = 3;
/// The bytes of a row: width, encoding, stored length.
pub const ROW_BYTES: usize = 10;

/// A field of all records.
pub struct Field {
    /// Its width in a record, in bytes.
    pub width: usize,
    /// The encoding of the field of all records.
    pub encoding: Encoding,
    /// The number of bytes that this takes.
    pub stored: usize,
}

/// The parameters of a payload.
pub struct Table {
    /// The number of bytes before the first record, less than a record.
    pub head: usize,
    /// The fields of a record, without gaps.
    pub fields: Vec<Field>,
}

impl Table {
    /// Appends the table. It must have 1 to 255 fields; lengths must fit.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.fields.len() as u8);
        out.extend_from_slice(&(self.head as u16).to_le_bytes());
        for field in &self.fields {
            out.extend_from_slice(&(field.width as u16).to_le_bytes());
            out.extend_from_slice(&field.encoding.to_bytes());
            out.extend_from_slice(&(field.stored as u32).to_le_bytes());
        }
    }

    /// Reads the table at the start of `bytes`, and returns what follows it. Records have at least one byte.
    pub fn read(bytes: &[u8]) -> Result<(Table, &[u8])> {
        let ([count, a, b], rest) = bytes.split_first_chunk::<FIXED_BYTES>().ok_or("the table is cut short")?;
        let (rows, rest) = rest.split_at_checked(usize::from(*count) * ROW_BYTES).ok_or("the table is cut short")?;
        let mut fields = Vec::with_capacity(usize::from(*count));
        for &[w0, w1, e0, e1, e2, e3, s0, s1, s2, s3] in rows.as_chunks::<ROW_BYTES>().0 {
            let encoding = Encoding::from_bytes([e0, e1, e2, e3]).map_err(text)?;
            // Fields in fields would have no limit.
            if encoding.codec == CodecId::Fields {
                return Err("fields are in a field".to_owned());
            }
            let width = usize::from(u16::from_le_bytes([w0, w1]));
            fields.push(Field { width, encoding, stored: u32::from_le_bytes([s0, s1, s2, s3]) as usize });
        }
        let head = usize::from(u16::from_le_bytes([*a, *b]));
        if fields.iter().any(|field| field.width == 0) || head >= fields.iter().map(|field| field.width).sum() {
            return Err("the records' lengths are impossible".to_owned());
        }
        Ok((Table { head, fields }, rest))
    }
}
