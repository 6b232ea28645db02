//! Transposition of fields of 4 or 8 bytes in small squares, sixteen bytes of a record at a time.
//!
//! If up to four fields of 4 bytes, or two of 8 bytes, lie within 16 bytes of a record, these bytes of eight or four
//! records are loaded once and give a vector for each field. In the opposite direction, the vectors of the fields give
//! 16 bytes of each record.

use super::program::VECTOR_BYTES;
use crate::kernel::Area;
use crate::moves::Move;

/// Fields that are moved together.
#[derive(Debug)]
pub(in crate::kernel) struct Square {
    /// The size of a field: 4 or 8.
    pub size: usize,
    /// Whether records become an array for each field; otherwise arrays become records.
    pub gather: bool,
    /// The starts of the arrays, one for each field.
    pub arrays: Vec<i64>,
    /// The start of the 16 bytes of the first record.
    pub record: i64,
    /// The distance between records.
    pub stride: i64,
    /// The distances between rows in the arrays and in the records.
    pub rows: (i64, i64),
    /// A shuffle mask between the order of a transposed square and the order of the record's 16 bytes.
    pub mask: [u8; VECTOR_BYTES],
}

/// Splits moves into squares, each with its moves, and moves that fit into no square.
pub(in crate::kernel) fn split(list: &[Move]) -> (Vec<(Square, Vec<Move>)>, Vec<Move>) {
    let (mut squares, mut rest) = (Vec::new(), Vec::new());
    let mut left: Vec<&Move> = list.iter().collect();
    left.sort_by_key(|one| (one.size, if gathers(one) { one.from } else { one.to }));
    let mut at = 0;
    while let Some(&first) = left.get(at) {
        let alike = left.iter().skip(at).take_while(|one| like(first, one)).copied();
        let run: Vec<&Move> = if gathers(first) {
            let most = VECTOR_BYTES / first.size.max(1) as usize;
            alike.take_while(|one| one.from + one.size as i64 <= first.from + VECTOR_BYTES as i64).take(most).collect()
        } else {
            let next = |(i, one): (usize, &Move)| one.to == first.to + (i as u64 * first.size) as i64;
            alike.enumerate().take_while(|(i, one)| next((*i, one))).map(|(_, one)| one).collect()
        };
        let found = squares_of(&run);
        match found.is_empty() {
            true => {
                rest.push(first.clone());
                at += 1;
            }
            false => {
                squares.extend(found);
                at += run.len();
            }
        }
    }
    (squares, rest)
}

fn steps(one: &Move) -> ((i64, i64), (i64, i64)) {
    (one.steps.first().copied().unwrap_or((0, 0)), one.steps.last().copied().unwrap_or((0, 0)))
}

/// Returns whether a move fills an array of its own.
fn gathers(one: &Move) -> bool {
    steps(one).1.0 == one.size as i64
}

/// Returns whether two moves can be in one square.
fn like(a: &Move, b: &Move) -> bool {
    let array = |one: &Move| if gathers(one) { steps(one).1.0 } else { steps(one).1.1 };
    matches!(a.size, 4 | 8) && a.size == b.size && steps(a) == steps(b) && array(a) == a.size as i64
}

/// Returns the squares of a run of fields. A square must be full to be written, so the last one may repeat fields of
/// the one before it.
fn squares_of(run: &[&Move]) -> Vec<(Square, Vec<Move>)> {
    let Some(first) = run.first() else { return Vec::new() };
    let full = VECTOR_BYTES / first.size.max(1) as usize;
    let gather = gathers(first);
    if !matches!(first.size, 4 | 8) || run.len() < if gather { 2 } else { full } {
        return Vec::new();
    }
    if gather {
        return vec![square(run, true)];
    }
    let starts = (0..run.len().saturating_sub(full)).step_by(full).chain([run.len() - full]);
    starts.filter_map(|start| run.get(start..start + full)).map(|fields| square(fields, false)).collect()
}

fn square(fields: &[&Move], gather: bool) -> (Square, Vec<Move>) {
    let end = |one: &Move| if gather { (one.to, one.from) } else { (one.from, one.to) };
    let orient = |step: (i64, i64)| if gather { step } else { (step.1, step.0) };
    let (row, step) = fields.first().map_or(((0, 0), (0, 0)), |first| steps(first));
    let record = fields.iter().map(|one| end(one).1).min().unwrap_or(0);
    let size = fields.first().map_or(4, |first| first.size as usize);
    let mut mask = [0x80; VECTOR_BYTES];
    for (i, one) in fields.iter().enumerate() {
        for byte in 0..size {
            let unit = one.unit as usize;
            let swapped = byte / unit * unit + (unit - 1 - byte % unit);
            let place = (end(one).1 - record) as usize;
            let (to, from) =
                if gather { (i * size + byte, place + swapped) } else { (place + byte, i * size + swapped) };
            if let Some(slot) = mask.get_mut(to) {
                *slot = from as u8;
            }
        }
    }
    let arrays = fields.iter().map(|one| end(one).0).collect();
    let square = Square { size, gather, arrays, record, stride: orient(step).1, rows: orient(row), mask };
    (square, fields.iter().map(|one| (*one).clone()).collect())
}

impl Square {
    /// Returns how many records are transposed at a time.
    pub fn records(&self) -> u64 {
        32 / self.size as u64
    }

    /// Returns the offsets of an area, to be added to the starts of arrays and records.
    pub fn start(&self, area: Area) -> (i64, i64) {
        let base = if self.gather { area.base } else { (area.base.1, area.base.0) };
        let (row, element) = (area.first_row as i64, area.first_element as i64);
        (base.0 + self.rows.0 * row + self.size as i64 * element, base.1 + self.rows.1 * row + self.stride * element)
    }

    /// Returns for how many elements of each row all accessed bytes lie within buffers of these lengths.
    pub fn limit(&self, area: Area, to: usize, from: usize) -> u64 {
        let (arrays, records) = if self.gather { (to as i64, from as i64) } else { (from as i64, to as i64) };
        let start = self.start(area);
        let mut squares = area.elements / self.records();
        // The sixteen bytes of the last records may reach beyond the buffer.
        for _ in 0..4 {
            let count = (squares * self.records()) as i64;
            let inside = |first: i64, row: i64, span: i64, least: i64, length: i64| {
                let ends = [0, row * (area.rows as i64 - 1)];
                ends.iter()
                    .all(|shift| first + shift + least.min(0) >= 0 && first + shift + span + least.max(0) <= length)
            };
            let array = |at: &i64| inside(start.0 + at, self.rows.0, self.size as i64 * count, 0, arrays);
            let reach = self.stride * (count - 1).max(0);
            if squares > 0
                && area.rows > 0
                && self.arrays.iter().all(array)
                && inside(start.1 + self.record, self.rows.1, VECTOR_BYTES as i64, reach, records)
            {
                return squares * self.records();
            }
            squares = squares.saturating_sub(1);
        }
        0
    }
}
