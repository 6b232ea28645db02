//! [`Place`]: where a vector of a period lies in a buffer.

use crate::kernel::Area;

/// The size of a vector.
pub(super) const VECTOR_BYTES: usize = 64;

/// The start of 64 bytes, and its distances.
#[derive(Clone, Copy, Debug)]
pub(in crate::kernel) struct Place {
    /// The start for the first record.
    pub at: i64,
    /// The distance from record to record.
    pub step: i64,
    /// The distance from row to row.
    pub row: i64,
}

impl Place {
    /// Returns the records among `first..=last` whose bytes lie within a buffer in all rows.
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
        // The range in which least + step * record >= 0 and most + step * record <= 0.
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
