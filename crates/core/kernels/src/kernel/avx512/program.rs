//! Byte permutations that put destinations together, 64 bytes at a time.
//!
//! After some whole number of records, a period, the pattern of all destinations begins again. The vectors that are written in a
//! period are made of the registers that hold its source. The same program serves any fields, sizes, strides and byte orders, out
//! of records, into them, and from one kind to another.

use super::group::{self, Group, Vector};
use super::source::Stretches;
use crate::kernel::record::{Record, period};
use crate::kernel::{Area, Span};
use crate::moves::Move;

/// Bytes of a vector.
pub(super) const WIDTH: usize = 64;
/// As many vectors are written in a period. More gain nothing.
const MOST_OUTPUTS: usize = 32;

/// How to fill the destinations of one period.
#[derive(Debug)]
pub(in crate::kernel) struct Program {
    /// Records in a period.
    pub records: u64,
    /// The parts that are loaded together, and their use.
    pub groups: Vec<Group>,
}

/// Where 64 bytes begin, and how that moves.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Place {
    /// Those of the first record.
    pub at: i64,
    /// From record to record.
    pub step: i64,
    /// From row to row.
    pub row: i64,
}

impl Program {
    /// The program of moves that fill one destination without gaps, or one each; none for others, and where it gains nothing.
    pub fn new(list: &[Move]) -> Option<Program> {
        let records = match Record::of(list) {
            Some(record) => vec![record],
            None => list.iter().map(|one| Record::of(std::slice::from_ref(one))).collect::<Option<_>>()?,
        };
        // Best is a period after which the source, too, goes on with whole registers.
        let size = records.iter().map(|record| record.size).sum::<u64>();
        let least = records.iter().map(|record| record.period(WIDTH as u64)).max()?;
        let best = list.iter().filter_map(|one| Some(period(one.steps.last()?.1, WIDTH as u64))).max()?.max(least);
        let fits = |period: &u64| period * size <= (MOST_OUTPUTS * WIDTH) as u64;
        let period = [best, least].into_iter().find(fits)?;
        let stretches = Stretches::of(list, period)?;
        let mut vectors = Vec::new();
        for record in &records {
            let sources = stretches.sources(record, period)?;
            for (at, sources) in (0..).step_by(WIDTH).zip(sources.as_chunks::<WIDTH>().0) {
                let place = Place { at: record.to + at, step: record.size as i64, row: record.row };
                vectors.push(Vector::new(place, *sources));
            }
        }
        let groups = group::groups(&vectors, &stretches)?;
        Some(Program { records: period, groups })
    }

    /// The part of an area that can be moved: from the first aligned place of the destination on, if there is one.
    pub fn span(&self, area: Area, to: &[u8], from: &[u8]) -> Span {
        let mut starts = (0, area.elements as i64 - self.records as i64);
        for group in &self.groups {
            for input in &group.inputs {
                starts = input.within(starts, WIDTH, area.base.1, area, from.len());
            }
            for output in &group.outputs {
                starts = output.within(starts, WIDTH, area.base.0, area, to.len());
            }
        }
        let (least, most) = starts;
        if least > most || area.rows == 0 {
            return Span::default();
        }
        let base = to.as_ptr() as i64 + area.base.0;
        let outputs = || self.groups.iter().flat_map(|group| &group.outputs);
        let begins_line = |place: &Place, record| {
            (base + place.at + place.row * area.first_row as i64 + place.step * record) % WIDTH as i64 == 0
        };
        let first_line = |record: &i64| outputs().next().is_some_and(|place| begins_line(place, *record));
        let first = (least..=most).take(WIDTH).find(first_line).unwrap_or(least);
        let one_row = area.rows == 1;
        let lines = outputs().all(|p| begins_line(p, first) && (one_row || p.row % WIDTH as i64 == 0));
        let periods = (most - first) as u64 / self.records + 1;
        Span { first: first as u64, count: periods * self.records, lines }
    }
}

impl Place {
    /// The records among `first..=last` whose bytes lie within a buffer in all rows.
    pub(super) fn within(
        &self,
        (first, last): (i64, i64),
        width: usize,
        base: i64,
        area: Area,
        length: usize,
    ) -> (i64, i64) {
        let rows = self.row * (area.rows as i64 - 1);
        let base = base + self.row * area.first_row as i64;
        let (least, most) = (base + self.at + rows.min(0), base + self.at + rows.max(0) + width as i64 - length as i64);
        // Where least + step * record >= 0, and most + step * record <= 0.
        let up = |a: i64, b: i64| -(-a).div_euclid(b);
        let (from, to) = match self.step {
            0 if least >= 0 && most <= 0 => (first, last),
            0 => (0, -1),
            1.. => (up(-least, self.step), (-most).div_euclid(self.step)),
            _ => (up(most, -self.step), least.div_euclid(-self.step)),
        };
        (first.max(from), last.min(to))
    }
}
