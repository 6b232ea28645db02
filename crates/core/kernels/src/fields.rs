//! Records split into their fields, and joined again.

use smallvec::smallvec;

use crate::{Level, Move, Moves};

/// Splits adjacent records, whose fields have these widths in bytes: all first fields, then all second ones, and so on. Returns false,
/// and does nothing, if the buffers differ in length or do not hold whole records.
pub fn split_fields(widths: &[usize], records: &[u8], fields: &mut [u8]) -> bool {
    split_fields_at(Level::of_machine(), widths, records, fields)
}

/// Like [`split_fields`], with registers of a level, or of the machine's level if that is lower.
pub fn split_fields_at(level: Level, widths: &[usize], records: &[u8], fields: &mut [u8]) -> bool {
    run(level, widths, fields, records, |field, record| (field, record))
}

/// Undoes [`split_fields`].
pub fn join_fields(widths: &[usize], fields: &[u8], records: &mut [u8]) -> bool {
    join_fields_at(Level::of_machine(), widths, fields, records)
}

/// Like [`join_fields`], with registers of a level, or of the machine's level if that is lower.
pub fn join_fields_at(level: Level, widths: &[usize], fields: &[u8], records: &mut [u8]) -> bool {
    run(level, widths, records, fields, |field, record| (record, field))
}

/// Moves fields between two buffers. `ends` puts an offset or a distance among the fields, and one among the records, into the order
/// (destination, source).
fn run(level: Level, widths: &[usize], to: &mut [u8], from: &[u8], ends: impl Fn(i64, i64) -> (i64, i64)) -> bool {
    let record = widths.iter().sum::<usize>();
    if record == 0 || to.len() != from.len() || !to.len().is_multiple_of(record) {
        return false;
    }
    let count = to.len() / record;
    let mut offset = 0;
    let one = |&width: &usize| {
        let (to, from) = ends((offset * count) as i64, offset as i64);
        offset += width;
        let step = ends(width as i64, record as i64);
        Move { to, from, size: width as u64, unit: 1, steps: smallvec![step] }
    };
    let list = widths.iter().filter(|width| **width > 0).map(one).collect();
    Moves { counts: vec![count as u64], list }.run_at(level, to, from)
}
