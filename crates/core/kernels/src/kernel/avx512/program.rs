//! Byte permutations that assemble destinations, 64 bytes at a time.
//!
//! The pattern of all destinations repeats after a period, which is a whole number of records. The vectors that are
//! written in a period are assembled from the registers that contain its source. The same program handles any fields,
//! sizes, strides and byte orders: from records, into records, and from one kind of record to another.

use super::group::{self, Group, Vector};
use super::place::{Place, VECTOR_BYTES};
use super::source::Stretches;
use crate::kernel::record::{Record, period};
use crate::kernel::{Area, Span};
use crate::moves::Move;

/// The maximum number of vectors that are written in a period. More gain nothing.
const MOST_OUTPUTS: usize = 32;

/// The instructions that fill the destinations of one period.
#[derive(Debug)]
pub(in crate::kernel) struct Program {
    /// The number of records in a period.
    pub records: u64,
    /// The registers that are loaded together, and the vectors made from them.
    pub groups: Vec<Group>,
}

impl Program {
    /// Makes the program of moves that fill one destination without gaps, or one destination each. Returns `None` for
    /// other moves, and if a program gains nothing.
    pub fn new(list: &[Move]) -> Option<Program> {
        let records = match Record::of(list) {
            Some(record) => vec![record],
            None => list.iter().map(|one| Record::of(std::slice::from_ref(one))).collect::<Option<_>>()?,
        };
        // The best period is one after which the source also continues with whole registers.
        let size = records.iter().map(|record| record.size).sum::<u64>();
        let least = records.iter().map(|record| record.period(VECTOR_BYTES as u64)).max()?;
        let best =
            list.iter().filter_map(|one| Some(period(one.steps.last()?.1, VECTOR_BYTES as u64))).max()?.max(least);
        let fits = |period: &u64| period * size <= (MOST_OUTPUTS * VECTOR_BYTES) as u64;
        let period = [best, least].into_iter().find(fits)?;
        let stretches = Stretches::of(list, period)?;
        let mut vectors = Vec::new();
        for record in &records {
            let sources = stretches.sources(record, period)?;
            for (at, sources) in (0..).step_by(VECTOR_BYTES).zip(sources.as_chunks::<VECTOR_BYTES>().0) {
                let place = Place { at: record.to + at, step: record.size as i64, row: record.row };
                vectors.push(Vector::new(place, *sources));
            }
        }
        let groups = group::groups(&vectors, &stretches)?;
        Some(Program { records: period, groups })
    }

    /// Returns the part of an area that can be moved: from the first aligned address of the destination on, if there is
    /// one.
    pub fn span(&self, area: Area, to: &[u8], from: &[u8]) -> Span {
        let mut starts = (0, area.elements as i64 - self.records as i64);
        for group in &self.groups {
            for input in &group.inputs {
                starts = input.within(starts, VECTOR_BYTES, area.base.1, area, from.len());
            }
            for output in &group.outputs {
                starts = output.within(starts, VECTOR_BYTES, area.base.0, area, to.len());
            }
        }
        let (least, most) = starts;
        if least > most || area.rows == 0 {
            return Span::default();
        }
        let base = to.as_ptr() as i64 + area.base.0;
        let outputs = || self.groups.iter().flat_map(|group| &group.outputs);
        let begins_line = |place: &Place, record| {
            (base + place.at + place.row * area.first_row as i64 + place.step * record) % VECTOR_BYTES as i64 == 0
        };
        let first_line = |record: &i64| outputs().next().is_some_and(|place| begins_line(place, *record));
        let first = (least..=most).take(VECTOR_BYTES).find(first_line).unwrap_or(least);
        let one_row = area.rows == 1;
        let lines = outputs().all(|p| begins_line(p, first) && (one_row || p.row % VECTOR_BYTES as i64 == 0));
        let periods = (most - first) as u64 / self.records + 1;
        Span { first: first as u64, count: periods * self.records, lines }
    }
}
