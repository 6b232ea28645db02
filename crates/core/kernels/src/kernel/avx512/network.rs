//! Conversion of records into arrays, or of arrays into records, by stages of permutations.
//!
//! At first, a register contains all fields of a few records. Each stage turns two registers with the same fields of
//! neighbouring records into two registers with half of the fields of all these records, until each register has a
//! single field. The conversion into records runs the stages backwards.

use super::group::Pick;
use super::place::{Place, VECTOR_BYTES};
use crate::kernel::record::{Record, swapped};
use crate::kernel::{Area, Span};
use crate::moves::Move;

/// The maximum number of registers that are held at once.
pub(super) const MAX_HELD_REGISTERS: usize = 8;

/// Permutations between the registers of a group of records.
#[derive(Debug)]
pub(in crate::kernel) struct Network {
    /// The number of records that are moved at once, a period.
    pub records: u64,
    /// Whether records become arrays; otherwise arrays become records.
    pub gather: bool,
    /// The place of the first register with whole records.
    pub whole: Place,
    /// The distance from one such register to the next.
    pub apart: i64,
    /// The number of bytes of each that hold records.
    pub valid: usize,
    /// The places of the registers with a single field; `None` for registers that are not needed. The first one is
    /// always needed.
    pub singles: Vec<Option<Place>>,
    /// For each stage and register, the selection from the register's pair.
    pub picks: Vec<Pick>,
}

/// A byte of a record, identified by the record, the field, and its position in the destination.
type Byte = u32;
/// No byte: the position is not used.
const NO_BYTE: Byte = Byte::MAX;

fn named(record: u64, field: usize, byte: i64) -> Byte {
    (record as u32) << 16 | (field as u32) << 8 | byte as u32
}

/// The fields in one register.
#[derive(Clone, Default)]
struct Held {
    /// The indexes of the fields; empty if the register is not needed.
    fields: Vec<usize>,
    /// The first record, and the number of records.
    first: u64,
    records: u64,
}

impl Network {
    /// Returns `None` for other moves, and for moves that need too many registers.
    pub fn new(list: &[Move]) -> Option<Network> {
        let first = list.first()?;
        let (row, element) = (first.steps.first()?, first.steps.last()?);
        let gather = list.iter().all(|one| is_array(one, |step| step.0) && same(one, first, |step| step.1));
        let scatter = || list.iter().all(|one| is_array(one, |step| step.1) && same(one, first, |step| step.0));
        let is_known = gather || (scatter() && Record::of(list).is_some());
        if list.len() < 2 || !is_known {
            return None;
        }
        let place = |one: &Move| if gather { one.from } else { one.to };
        let (stride, row) = if gather { (element.1, row.1) } else { (element.0, row.0) };
        let start = list.iter().map(place).min()?;
        let extent = list.iter().map(|one| place(one) + one.size as i64 - start).max()?;
        if stride < extent {
            return None;
        }
        // Each register contains enough records to fill more than half of it.
        let fits = |records: &i64| (records - 1) * stride + extent <= VECTOR_BYTES as i64;
        let together = [32, 16, 8, 4, 2, 1].into_iter().find(fits)? as u64;
        let least = list.iter().map(|one| one.size).min()?;
        let count = VECTOR_BYTES as u64 / least / together;
        if count < 2 || count as usize > MAX_HELD_REGISTERS {
            return None;
        }
        let levels = levels(list, count, together)?;
        let single = |held: &Held| {
            let one = list.get(*held.fields.first()?)?;
            let (row, step) = (one.steps.first()?, one.steps.last()?);
            let (at, step, row) = if gather { (one.to, step.0, row.0) } else { (one.from, step.1, row.1) };
            Some(Place { at: at + step * held.first as i64, step, row })
        };
        let bytes = |level: usize, held: &Held| match level {
            0 => wholes(list, held, gather, |one| place(one) - start, stride),
            _ if level + 1 == levels.len() => singles(list, held, gather),
            _ => between(list, held),
        };
        let bytes: Vec<Vec<Vec<Byte>>> =
            levels.iter().zip(0..).map(|(l, i)| l.iter().map(|h| bytes(i, h)).collect()).collect();
        let mut stages = Vec::new();
        for (stage, pair) in bytes.windows(2).enumerate() {
            let [before, after] = pair else { return None };
            stages.push(if gather { stage_of(stage, before, after)? } else { stage_of(stage, after, before)? });
        }
        if !gather {
            stages.reverse();
        }
        Some(Network {
            records: count * together,
            gather,
            whole: Place { at: start, step: stride, row },
            apart: together as i64 * stride,
            valid: ((together as i64 - 1) * stride + extent) as usize,
            singles: levels.last()?.iter().map(single).collect(),
            picks: stages.concat(),
        })
    }

    /// Returns the part of an area that can be moved.
    pub fn span(&self, area: Area, to: &[u8], from: &[u8]) -> Span {
        let mut starts = (0, area.elements as i64 - self.records as i64);
        let (record, array) = if self.gather {
            ((area.base.1, from.len()), (area.base.0, to.len()))
        } else {
            ((area.base.0, to.len()), (area.base.1, from.len()))
        };
        // Registers overlap by less than half, so that no other register reaches beyond the last one.
        for number in [0, self.singles.len() as i64 - 1] {
            let place = Place { at: self.whole.at + self.apart * number, ..self.whole };
            // When records are written, no bytes after them may be touched.
            starts =
                place.within(starts, if self.gather { VECTOR_BYTES } else { self.valid }, record.0, area, record.1);
        }
        for place in self.singles.iter().flatten() {
            starts = place.within(starts, VECTOR_BYTES, array.0, area, array.1);
        }
        let (least, most) = starts;
        if least > most || area.rows == 0 {
            return Span::default();
        }
        let periods = (most - least) as u64 / self.records + 1;
        Span { first: least as u64, count: periods * self.records, lines: false }
    }
}

/// Returns whether one end of a move fills an array, in elements whose size is a power of two.
fn is_array(one: &Move, end: fn(&(i64, i64)) -> i64) -> bool {
    one.size.is_power_of_two() && one.steps.last().is_some_and(|step| end(step) == one.size as i64)
}

/// Returns whether the ends of two moves advance equally.
fn same(one: &Move, first: &Move, end: fn(&(i64, i64)) -> i64) -> bool {
    one.steps.len() == first.steps.len() && one.steps.iter().zip(&first.steps).all(|(a, b)| end(a) == end(b))
}

/// Returns the fields and records in each register, before the first stage and after each stage.
fn levels(list: &[Move], count: u64, together: u64) -> Option<Vec<Vec<Held>>> {
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(list.get(*i).map_or(0, |one| one.size)));
    let size = |fields: &[usize]| fields.iter().filter_map(|i| list.get(*i)).map(|one| one.size).sum::<u64>();
    let mut level: Vec<Held> =
        (0..count).map(|i| Held { fields: order.clone(), first: i * together, records: together }).collect();
    let mut levels = vec![level.clone()];
    let done = |held: &Held| match &held.fields[..] {
        [] => true,
        [_] => size(&held.fields) * held.records == VECTOR_BYTES as u64,
        _ => false,
    };
    for stage in 0..count.ilog2() {
        for low in (0..count as usize).filter(|i| i >> stage & 1 == 0) {
            let high = low | 1 << stage;
            let held = level.get(low)?.clone();
            if done(&held) {
                continue;
            }
            let records = held.records * 2;
            let fits = |fields: &[usize]| size(fields) * records <= VECTOR_BYTES as u64;
            let half = (1..=held.fields.len()).rev().find(|half| held.fields.get(..*half).is_some_and(fits))?;
            let (some, rest) = held.fields.split_at_checked(half)?;
            if !fits(rest) {
                return None;
            }
            *level.get_mut(low)? = Held { fields: some.to_vec(), records, ..held };
            *level.get_mut(high)? = Held { fields: rest.to_vec(), records, ..held };
        }
        levels.push(level.clone());
    }
    level.iter().all(done).then_some(levels)
}

/// Returns the bytes of whole records in memory order.
fn wholes(list: &[Move], held: &Held, swap: bool, place: impl Fn(&Move) -> i64, stride: i64) -> Vec<Byte> {
    let mut bytes = vec![NO_BYTE; VECTOR_BYTES];
    for record in 0..held.records {
        for (number, one) in list.iter().enumerate() {
            for (byte, source) in (0..).zip(swapped(one)) {
                let at = place(one) + stride * record as i64 + if swap { source } else { byte };
                if let Some(slot) = bytes.get_mut(at as usize) {
                    *slot = named(held.first + record, number, byte);
                }
            }
        }
    }
    bytes
}

/// Returns the bytes of a field in memory order.
fn singles(list: &[Move], held: &Held, gather: bool) -> Vec<Byte> {
    let Some((number, one)) = held.fields.first().and_then(|i| Some((*i, list.get(*i)?))) else { return Vec::new() };
    let mut bytes = vec![NO_BYTE; VECTOR_BYTES];
    for record in 0..held.records {
        for (byte, source) in (0..).zip(swapped(one)) {
            let at = record as i64 * one.size as i64 + if gather { byte } else { source };
            if let Some(slot) = bytes.get_mut(at as usize) {
                *slot = named(held.first + record, number, byte);
            }
        }
    }
    bytes
}

/// Returns the bytes of a few fields, record by record.
fn between(list: &[Move], held: &Held) -> Vec<Byte> {
    let mut bytes = Vec::new();
    for record in held.first..held.first + held.records {
        for &number in &held.fields {
            let size = list.get(number).map_or(0, |one| one.size as i64);
            bytes.extend((0..size).map(|byte| named(record, number, byte)));
        }
    }
    bytes
}

/// Returns the selections of each register of a stage from its pair.
fn stage_of(stage: usize, before: &[Vec<Byte>], after: &[Vec<Byte>]) -> Option<Vec<Pick>> {
    let pick = |(slot, bytes): (usize, &Vec<Byte>)| {
        let pair = [before.get(slot & !(1 << stage))?, before.get(slot | 1 << stage)?];
        let mut pick = Pick([0; VECTOR_BYTES]);
        for (to, byte) in pick.0.iter_mut().zip(bytes).filter(|(_, byte)| **byte != NO_BYTE) {
            let of = |side: usize| Some(side * VECTOR_BYTES + pair.get(side)?.iter().position(|other| other == byte)?);
            *to = of(0).or_else(|| of(1))? as u8;
        }
        Some(pick)
    };
    after.iter().enumerate().map(pick).collect()
}
