//! The source of a period, as registers.

use super::place::{Place, VECTOR_BYTES};
use crate::kernel::record::{Record, swapped};
use crate::moves::Move;

/// The maximum number of registers: a set of registers is one number with a bit for each.
const MAX_SET_REGISTERS: usize = u64::BITS as usize;

/// Stretches of the source that together contain all bytes of a period, divided into registers.
pub(super) struct Stretches(Vec<Stretch>);

struct Stretch {
    start: i64,
    end: i64,
    /// The distances from record to record and from row to row.
    steps: (i64, i64),
    /// The index of its first register.
    register: usize,
}

/// A byte of the source: a register, and a byte in it.
#[derive(Clone, Copy, Default)]
pub(super) struct Source {
    pub register: u8,
    pub byte: u8,
}

/// Returns the distances of the source from record to record and from row to row.
fn steps(one: &Move) -> (i64, i64) {
    (one.steps.last().map_or(0, |step| step.1), one.steps.first().map_or(0, |step| step.1))
}

impl Stretches {
    /// Returns `None` if the stretches need too many registers.
    pub fn of(list: &[Move], period: u64) -> Option<Stretches> {
        let stretch = |one: &Move| {
            let last = one.from + steps(one).0 * (period as i64 - 1);
            let (start, end) = (one.from.min(last), one.from.max(last) + one.size as i64);
            Stretch { start, end, steps: steps(one), register: 0 }
        };
        let mut all: Vec<Stretch> = list.iter().map(stretch).collect();
        all.sort_unstable_by_key(|stretch| (stretch.steps, stretch.start));
        let mut joined: Vec<Stretch> = Vec::new();
        for stretch in all {
            match joined.last_mut().filter(|last| last.steps == stretch.steps && stretch.start <= last.end) {
                Some(last) => last.end = last.end.max(stretch.end),
                None => joined.push(stretch),
            }
        }
        let mut registers = 0;
        for stretch in &mut joined {
            stretch.register = registers;
            registers += ((stretch.end - stretch.start) as usize).div_ceil(VECTOR_BYTES);
        }
        (registers <= MAX_SET_REGISTERS).then_some(Stretches(joined))
    }

    /// Returns the origins of the bytes of a period of records.
    pub fn sources(&self, record: &Record, period: u64) -> Option<Vec<Source>> {
        let mut sources = vec![Source::default(); (period * record.size) as usize];
        for field in &record.fields {
            let steps = steps(field);
            let has = |s: &&Stretch| s.steps == steps && (s.start..s.end).contains(&field.from);
            let stretch = self.0.iter().find(has)?;
            let (first, from) = ((field.to - record.to) as usize, field.from - stretch.start);
            let order: Vec<i64> = swapped(field).collect();
            for (bytes, number) in sources.chunks_mut(record.size as usize).zip(0..) {
                for (source, byte) in bytes.iter_mut().skip(first).zip(&order) {
                    let at = (from + steps.0 * number + byte) as usize;
                    *source = Source {
                        register: (stretch.register + at / VECTOR_BYTES) as u8,
                        byte: (at % VECTOR_BYTES) as u8,
                    };
                }
            }
        }
        Some(sources)
    }

    /// Returns the places of the registers in a set.
    pub fn places(&self, registers: u64) -> Vec<Place> {
        let place = |stretch: &Stretch, register: usize| {
            let at = stretch.start + ((register - stretch.register) * VECTOR_BYTES) as i64;
            Place { at, step: stretch.steps.0, row: stretch.steps.1 }
        };
        let set = (0..MAX_SET_REGISTERS).filter(|register| registers >> register & 1 == 1);
        set.filter_map(|register| Some(place(self.0.iter().rfind(|s| s.register <= register)?, register))).collect()
    }
}
