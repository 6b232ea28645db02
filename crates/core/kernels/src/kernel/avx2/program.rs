//! Byte shuffles that assemble records, sixteen bytes at a time.
//!
//! A program divides a destination without gaps into vectors of 16 bytes. Their pattern repeats after a period, which
//! is a whole number of records. Each vector of a period is assembled from a few windows of 16 bytes of the source; a
//! mask says where each of their bytes goes. The same program handles any fields, sizes, strides and byte orders.

use crate::kernel::Area;
use crate::kernel::record::{Record, swapped};
use crate::moves::Move;

/// The size of a vector.
pub(in crate::kernel) const VECTOR_BYTES: usize = 16;
/// Longer periods gain nothing over single moves.
const MAX_PERIOD_BYTES: u64 = 1024;
/// More windows than this per vector cost as much as single moves.
pub(super) const MOST_WINDOWS: usize = 16;

/// The instructions that fill the vectors of one period.
#[derive(Debug)]
pub(in crate::kernel) struct Program {
    /// The number of records in a period.
    pub records: u64,
    /// The size of a period in the destination.
    pub period: u64,
    /// The destination of the first record.
    pub to: i64,
    /// The distance between rows in the destination.
    pub row: i64,
    /// The vectors, in order.
    pub vectors: Vec<Vec<Window>>,
}

/// Sixteen bytes of the source, and the destination of each.
#[derive(Debug)]
pub(in crate::kernel) struct Window {
    /// The start of the window.
    pub from: i64,
    /// The distance of the window from period to period.
    pub step: i64,
    /// The distance of the window from row to row.
    pub row: i64,
    /// For each byte of the vector, the index of a byte of the window, or 0x80 if another window provides it.
    pub mask: [u8; VECTOR_BYTES],
}

impl Program {
    /// Makes the program of moves that fill their destination without gaps. Returns `None` for other moves, and if a
    /// program gains nothing.
    pub fn record(list: &[Move]) -> Option<Program> {
        let record = Record::of(list)?;
        let records = record.period(VECTOR_BYTES as u64);
        let period = records * record.size;
        if period > MAX_PERIOD_BYTES {
            return None;
        }
        let mut program = Program { records, period, to: record.to, row: record.row, vectors: Vec::new() };
        let bytes = sources(&record, records);
        for vector in bytes.chunks(VECTOR_BYTES) {
            program.vectors.push(windows(vector, records).filter(|windows| windows.len() <= MOST_WINDOWS)?);
        }
        Some(program)
    }

    /// Returns the start of an area in the destination.
    pub fn start(&self, area: Area) -> i64 {
        let period = (area.first_element / self.records) as i64;
        area.base.0 + self.to + self.row * area.first_row as i64 + self.period as i64 * period
    }

    /// Returns for how many elements of each row the windows and vectors of whole pairs of periods lie within buffers
    /// of these lengths.
    pub fn limit(&self, area: Area, to: usize, from: usize) -> u64 {
        // A window may read more bytes than it uses. The last few elements are left to other kernels if those bytes are
        // beyond the buffer.
        let most = area.elements / self.records / 2;
        let fits = |pairs: &u64| {
            let (least, most) = self.reach(area, pairs * 2);
            least >= 0 && most <= from as i64
        };
        let first = most.saturating_sub(VECTOR_BYTES as u64).max(1);
        let Some(pairs) = (first..=most).rev().find(fits) else { return 0 };
        let start = self.start(area);
        let end = start + self.row * (area.rows as i64 - 1) + (self.period * pairs * 2) as i64;
        let inside = area.rows > 0 && start >= 0 && self.row >= 0 && end <= to as i64;
        if inside { pairs * 2 * self.records } else { 0 }
    }

    /// Returns the smallest start and the largest end of the windows of an area with this number of periods.
    fn reach(&self, area: Area, periods: u64) -> (i64, i64) {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for window in self.vectors.iter().flatten() {
            let start = window.start(self, area);
            for row in [0, window.row * (area.rows as i64 - 1)] {
                for step in [0, window.step * (periods as i64 - 1)] {
                    least = least.min(start + row + step);
                    most = most.max(start + row + step + VECTOR_BYTES as i64);
                }
            }
        }
        (least, most)
    }
}

impl Window {
    /// Returns the start of the window in an area.
    pub fn start(&self, program: &Program, area: Area) -> i64 {
        let period = (area.first_element / program.records) as i64;
        area.base.1 + self.from + self.row * area.first_row as i64 + self.step * period
    }
}

/// The origin of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    /// Its distance from record to record.
    step: i64,
    /// Its distance from row to row.
    row: i64,
    /// Its offset in the source.
    from: i64,
}

/// Returns the origins of the bytes of this number of records.
fn sources(record: &Record, records: u64) -> Vec<Source> {
    let mut sources = Vec::new();
    for number in 0..records as i64 {
        for field in &record.fields {
            let (step, row) = (field.steps.last().map_or(0, |s| s.1), field.steps.first().map_or(0, |s| s.1));
            let first = field.from + step * number;
            sources.extend(swapped(field).map(|byte| Source { step, row, from: first + byte }));
        }
    }
    sources
}

/// Finds the smallest set of windows that contains these bytes, in periods of this number of records.
fn windows(bytes: &[Source], records: u64) -> Option<Vec<Window>> {
    let mut order: Vec<usize> = (0..bytes.len()).collect();
    order.sort_unstable_by_key(|i| bytes.get(*i));
    let mut windows: Vec<Window> = Vec::new();
    for i in order {
        let &Source { from, step, row } = bytes.get(i)?;
        let step = step * records as i64;
        let fits = |w: &Window| w.step == step && w.row == row && from - w.from < VECTOR_BYTES as i64;
        if !windows.last().is_some_and(fits) {
            windows.push(Window { from, step, row, mask: [0x80; VECTOR_BYTES] });
        }
        let window = windows.last_mut()?;
        *window.mask.get_mut(i)? = (from - window.from) as u8;
    }
    Some(windows)
}
