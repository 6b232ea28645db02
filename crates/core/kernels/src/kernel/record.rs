//! Moves that fill their destination without gaps: an array, or adjacent records.

use crate::moves::Move;

/// Adjacent fields that form adjacent records in the destination.
pub(super) struct Record<'a> {
    /// The fields, in order.
    pub fields: Vec<&'a Move>,
    /// The destination of the first record.
    pub to: i64,
    /// The size of a record.
    pub size: u64,
    /// The distance between rows in the destination.
    pub row: i64,
}

impl<'a> Record<'a> {
    /// Returns `None` if the moves leave gaps, and if plain copies are best.
    pub fn of(list: &'a [Move]) -> Option<Record<'a>> {
        let first = list.first()?;
        let (stride, row) = (first.steps.last()?.0, first.steps.first()?.0);
        let mut fields: Vec<&Move> = list.iter().collect();
        fields.sort_unstable_by_key(|field| field.to);
        let to = fields.first()?.to;
        let mut end = to;
        for field in &fields {
            if field.to != end || field.steps.last()?.0 != stride || field.steps.first()?.0 != row {
                return None;
            }
            end += field.size as i64;
        }
        let long = fields.iter().all(|field| field.size >= 64 && field.unit == 1);
        (end - to == stride && !long).then_some(Record { fields, to, size: stride as u64, row })
    }

    #[cfg(target_arch = "x86_64")]
    /// Returns the number of records after which a record and a vector of `width` bytes end at the same byte.
    pub fn period(&self, width: u64) -> u64 {
        period(self.size as i64, width)
    }
}

#[cfg(target_arch = "x86_64")]
/// For each byte of a field, returns its index before units are byte-swapped.
pub(super) fn swapped(field: &Move) -> impl Iterator<Item = i64> + Clone {
    let (size, unit) = (field.size as i64, field.unit as i64);
    (0..size).step_by(unit as usize).flat_map(move |first| (first..first + unit).rev())
}

#[cfg(target_arch = "x86_64")]
/// Returns the number of steps after which a step and a vector of `width` bytes end at the same byte.
pub(super) fn period(step: i64, width: u64) -> u64 {
    width / divisor(step.unsigned_abs(), width)
}

#[cfg(target_arch = "x86_64")]
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}
