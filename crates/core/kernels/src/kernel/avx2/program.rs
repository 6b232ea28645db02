//! Byte shuffles that put records together, sixteen bytes at a time.
//!
//! A destination without gaps is seen as vectors of 16 bytes. After some whole number of records, a period, its pattern begins
//! again. Each vector of a period is put together from a few windows of 16 bytes of the source; where each of their bytes goes,
//! a mask says. The same program serves any fields, sizes, strides and byte orders.

use crate::kernel::Area;
use crate::kernel::record::{Record, swapped};
use crate::moves::Move;

/// Bytes of a vector.
pub(in crate::kernel) const WIDTH: usize = 16;
/// Longer periods gain nothing over single moves.
const LONGEST: u64 = 1024;
/// More windows than this per vector cost as much as single moves.
pub(super) const MOST_WINDOWS: usize = 16;

/// How to fill the vectors of one period.
#[derive(Debug)]
pub(in crate::kernel) struct Program {
    /// Records in a period.
    pub records: u64,
    /// Bytes of a period in the destination.
    pub period: u64,
    /// Where the first record goes.
    pub to: i64,
    /// By how much the destination moves from row to row.
    pub row: i64,
    /// The vectors, in order.
    pub vectors: Vec<Vec<Window>>,
}

/// Sixteen bytes of the source, and where each goes.
#[derive(Debug)]
pub(in crate::kernel) struct Window {
    /// Where it begins.
    pub from: i64,
    /// By how much it moves from period to period.
    pub step: i64,
    /// By how much it moves from row to row.
    pub row: i64,
    /// For each byte of the vector, the byte of the window; 0x80 where another window gives it.
    pub mask: [u8; WIDTH],
}

impl Program {
    /// The program of moves that fill their destination without gaps; none for others, and where it gains nothing.
    pub fn record(list: &[Move]) -> Option<Program> {
        let record = Record::of(list)?;
        let records = record.period(WIDTH as u64);
        let period = records * record.size;
        if period > LONGEST {
            return None;
        }
        let mut program = Program { records, period, to: record.to, row: record.row, vectors: Vec::new() };
        let bytes = sources(&record, records);
        for vector in bytes.chunks(WIDTH) {
            program.vectors.push(windows(vector, records).filter(|windows| windows.len() <= MOST_WINDOWS)?);
        }
        Some(program)
    }

    /// Where the destination of an area begins.
    pub fn start(&self, area: Area) -> i64 {
        let period = (area.first_element / self.records) as i64;
        area.base.0 + self.to + self.row * area.first_row as i64 + self.period as i64 * period
    }

    /// For how many elements of each row all windows and vectors of pairs of periods lie within buffers of these lengths.
    pub fn limit(&self, area: Area, to: usize, from: usize) -> u64 {
        // A window may reach beyond what it is needed for. Where that is beyond the buffer, the last few are left to others.
        let most = area.elements / self.records / 2;
        let fits = |pairs: &u64| {
            let (least, most) = self.reach(area, pairs * 2);
            least >= 0 && most <= from as i64
        };
        let first = most.saturating_sub(WIDTH as u64).max(1);
        let Some(pairs) = (first..=most).rev().find(fits) else { return 0 };
        let start = self.start(area);
        let end = start + self.row * (area.rows as i64 - 1) + (self.period * pairs * 2) as i64;
        let inside = area.rows > 0 && start >= 0 && self.row >= 0 && end <= to as i64;
        if inside { pairs * 2 * self.records } else { 0 }
    }

    /// The beginnings and ends of the windows of an area of this number of periods.
    fn reach(&self, area: Area, periods: u64) -> (i64, i64) {
        let (mut least, mut most) = (i64::MAX, i64::MIN);
        for window in self.vectors.iter().flatten() {
            let start = window.start(self, area);
            for row in [0, window.row * (area.rows as i64 - 1)] {
                for step in [0, window.step * (periods as i64 - 1)] {
                    least = least.min(start + row + step);
                    most = most.max(start + row + step + WIDTH as i64);
                }
            }
        }
        (least, most)
    }
}

impl Window {
    /// Where the first window of an area begins.
    pub fn start(&self, program: &Program, area: Area) -> i64 {
        let period = (area.first_element / program.records) as i64;
        area.base.1 + self.from + self.row * area.first_row as i64 + self.step * period
    }
}

/// Where a byte comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    /// By how much it moves from record to record.
    step: i64,
    /// By how much it moves from row to row.
    row: i64,
    /// Its place.
    from: i64,
}

/// The places from which the bytes of this number of records come.
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

/// The fewest windows that hold these bytes, in periods of this number of records.
fn windows(bytes: &[Source], records: u64) -> Option<Vec<Window>> {
    let mut order: Vec<usize> = (0..bytes.len()).collect();
    order.sort_unstable_by_key(|i| bytes.get(*i));
    let mut windows: Vec<Window> = Vec::new();
    for i in order {
        let &Source { from, step, row } = bytes.get(i)?;
        let step = step * records as i64;
        let fits = |w: &Window| w.step == step && w.row == row && from - w.from < WIDTH as i64;
        if !windows.last().is_some_and(fits) {
            windows.push(Window { from, step, row, mask: [0x80; WIDTH] });
        }
        let window = windows.last_mut()?;
        *window.mask.get_mut(i)? = (from - window.from) as u8;
    }
    Some(windows)
}
