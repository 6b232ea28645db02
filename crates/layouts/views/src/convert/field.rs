//! Fields and groups: the repeated runs of bytes that a conversion moves.

use terrace_kernels::Steps;

use crate::model::Part;

/// A run of bytes that is moved repeatedly, once for each combination of its group's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The offset of the first run in the view.
    pub a: i64,
    /// The offset of the first run in the stored file.
    pub b: i64,
    /// The length of a run.
    pub size: u64,
    /// The unit in bytes in which their order is reversed; 1 means no swap.
    pub unit: u64,
    /// The steps of both offsets for each count.
    pub steps: Steps,
}

/// Fields that are repeated equally often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// The stored file.
    pub file: usize,
    /// The counts of repetitions, outermost first. The counts with the largest steps in the view are outermost.
    pub counts: Vec<u64>,
    /// The fields.
    pub fields: Vec<Field>,
}

impl Field {
    /// Makes a field of a part of an element.
    pub fn part(&self, part: Part, swap: bool) -> Field {
        let (a, b) = (self.a + part.offset as i64, self.b + part.offset as i64);
        Field { a, b, size: part.size, unit: if swap { part.unit } else { 1 }, steps: self.steps.clone() }
    }
}

/// Sorts steps by their distance in the view and makes all of them non-negative there.
pub(crate) fn normalise(field: &mut Field, counts: &mut Vec<u64>) {
    for (count, step) in counts.iter().zip(&mut field.steps) {
        if step.0 < 0 {
            let last = (*count - 1) as i64;
            field.a += step.0 * last;
            field.b += step.1 * last;
            *step = (-step.0, -step.1);
        }
    }
    let mut both: Vec<(u64, (i64, i64))> = counts.iter().copied().zip(field.steps.iter().copied()).collect();
    both.retain(|(count, _)| *count != 1);
    both.sort_by_key(|(_, step)| -step.0);
    *counts = both.iter().map(|(count, _)| *count).collect();
    field.steps = both.iter().map(|(_, step)| *step).collect();
}

impl Group {
    /// Joins adjacent runs (the paper's coalescing of blocks): fields, counts, and both again.
    pub fn coalesce(&mut self) {
        loop {
            let before = (self.fields.len(), self.counts.len());
            self.join_fields();
            self.join_counts();
            self.swallow();
            if before == (self.fields.len(), self.counts.len()) {
                return;
            }
        }
    }

    fn join_fields(&mut self) {
        self.fields.sort_by_key(|field| (field.a, field.b));
        let mut joined: Vec<Field> = Vec::new();
        for field in self.fields.drain(..) {
            match joined.last_mut() {
                Some(last)
                    if last.unit == field.unit
                        && last.steps == field.steps
                        && last.a + last.size as i64 == field.a
                        && last.b + last.size as i64 == field.b =>
                {
                    last.size += field.size;
                }
                _ => joined.push(field),
            }
        }
        self.fields = joined;
    }

    /// Merges two counts if the outer one continues where the inner one ends.
    fn join_counts(&mut self) {
        let mut outer = self.counts.len().saturating_sub(1);
        while outer > 0 {
            let inner = outer;
            outer -= 1;
            let Some(count) = self.counts.get(inner).map(|c| *c as i64) else { return };
            let goes_on = self.fields.iter().all(|field| match (field.steps.get(outer), field.steps.get(inner)) {
                (Some(o), Some(i)) => i.0.checked_mul(count) == Some(o.0) && i.1.checked_mul(count) == Some(o.1),
                _ => false,
            });
            if goes_on {
                self.counts.remove(inner);
                if let Some(whole) = self.counts.get_mut(outer) {
                    *whole *= count as u64;
                }
                for field in &mut self.fields {
                    let step = field.steps.remove(inner);
                    if let Some(last) = field.steps.get_mut(outer) {
                        *last = step;
                    }
                }
            }
        }
    }

    /// Merges adjacent repetitions of a field into one long run.
    fn swallow(&mut self) {
        let side_by_side = |f: &Field| f.steps.last() == Some(&(f.size as i64, f.size as i64));
        if !self.fields.iter().all(side_by_side) {
            return;
        }
        if let Some(count) = self.counts.pop() {
            for field in &mut self.fields {
                field.steps.pop();
                field.size *= count;
            }
        }
    }
}
