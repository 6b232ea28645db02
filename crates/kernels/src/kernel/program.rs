//! Byte shuffles that put records together, sixteen bytes at a time.
//!
//! A destination without gaps is seen as vectors of 16 bytes. After some whole number of records, a period, its pattern begins
//! again. Each vector of a period is put together from a few windows of 16 bytes of the source; where each of their bytes goes,
//! a mask says. The same program serves any fields, sizes, strides and byte orders.

use super::Area;
use crate::moves::Move;

/// Bytes of a vector.
pub(super) const WIDTH: usize = 16;
/// Longer periods gain nothing over single moves.
const LONGEST: u64 = 1024;
/// More windows than this per vector cost as much as single moves.
pub(super) const MOST_WINDOWS: usize = 16;

/// How to fill the vectors of one period.
#[derive(Debug)]
pub(super) struct Program {
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
pub(super) struct Window {
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
        let first = list.first()?;
        let (stride, row) = (first.steps.last()?.0, first.steps.first()?.0);
        let mut fields: Vec<&Move> = list.iter().collect();
        fields.sort_unstable_by_key(|field| field.to);
        let start = fields.first()?.to;
        let mut end = start;
        for field in &fields {
            if field.to != end || field.steps.last()?.0 != stride || field.steps.first()?.0 != row {
                return None;
            }
            end += field.size as i64;
        }
        let size = u64::try_from(end - start).ok().filter(|size| *size as i64 == stride && *size <= LONGEST)?;
        let records = WIDTH as u64 / divisor(size, WIDTH as u64);
        let period = records * size;
        // Long fields are best copied as they are.
        let long = fields.iter().all(|field| field.size >= 64 && field.unit == 1);
        if period > LONGEST || long {
            return None;
        }
        let mut program = Program { records, period, to: start, row, vectors: Vec::new() };
        let mut bytes = Vec::new();
        for record in 0..records as i64 {
            for field in &fields {
                let step = field.steps.last()?.1;
                let source = field.from + step * record;
                for byte in 0..field.size {
                    let swapped = byte / field.unit * field.unit + (field.unit - 1 - byte % field.unit);
                    bytes.push((source + swapped as i64, step * records as i64, field.steps.first()?.1));
                }
            }
        }
        for vector in bytes.chunks(WIDTH) {
            program.vectors.push(windows(vector).filter(|windows| windows.len() <= MOST_WINDOWS)?);
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

    /// Where the windows of an area of so many periods begin and end.
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

/// The fewest windows that hold these bytes, each given by its place and how that moves.
fn windows(bytes: &[(i64, i64, i64)]) -> Option<Vec<Window>> {
    let mut order: Vec<usize> = (0..bytes.len()).collect();
    order.sort_unstable_by_key(|i| bytes.get(*i).map(|(from, step, row)| (*step, *row, *from)));
    let mut windows: Vec<Window> = Vec::new();
    for i in order {
        let &(from, step, row) = bytes.get(i)?;
        let fits = |w: &Window| w.step == step && w.row == row && from - w.from < WIDTH as i64;
        if !windows.last().is_some_and(fits) {
            windows.push(Window { from, step, row, mask: [0x80; WIDTH] });
        }
        let window = windows.last_mut()?;
        *window.mask.get_mut(i)? = (from - window.from) as u8;
    }
    Some(windows)
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
