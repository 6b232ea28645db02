//! Clips descriptors to a request by arithmetic, without iterating over elements.

use super::field::{Field, Group};

/// The part of a group within a request.
#[derive(Clone, Debug)]
pub(crate) struct Clipped {
    pub file: usize,
    pub counts: Vec<u64>,
    pub fields: Vec<Field>,
    /// The bytes of each repetition that are included, relative to the field's first byte.
    pub only: Option<(u64, u64)>,
}

/// Calls `each` with boxes that together form the part of the group within bytes `start..end` of the view. For each
/// field, the boxes are in the order of the view. Stops at the first error.
pub(crate) fn clip<E>(
    group: &Group,
    start: i64,
    end: i64,
    each: &mut dyn FnMut(Clipped) -> Result<(), E>,
) -> Result<(), E> {
    Cut { file: group.file, start, end, each }.level(group.fields.clone(), &group.counts)
}

struct Cut<'e, E> {
    file: usize,
    start: i64,
    end: i64,
    each: &'e mut dyn FnMut(Clipped) -> Result<(), E>,
}

/// For one field, which repetitions of the outermost count touch the request, and which lie within it, and the values that lie within it.
struct Reach {
    touched: (i64, i64),
    whole: (i64, i64),
}

impl<E> Cut<'_, E> {
    /// Handles the remaining `counts`; the last steps of each field belong to them.
    fn level(&mut self, fields: Vec<Field>, counts: &[u64]) -> Result<(), E> {
        let Some((&outer, inner)) = counts.split_first() else { return self.leaf(fields, counts) };
        let depth = counts.len();
        if fields.iter().all(|field| step(field, depth).0 == 0) {
            return self.leaf(fields, counts);
        }
        let reaches: Vec<Reach> = fields.iter().map(|field| self.reach(field, outer, inner)).collect();
        self.partly(&fields, &reaches, inner, |reach| (reach.touched.0, reach.whole.0.min(reach.touched.1)))?;
        self.wholly(&fields, &reaches, counts)?;
        self.partly(&fields, &reaches, inner, |reach| {
            (reach.whole.1.max(reach.touched.0).max(reach.whole.0), reach.touched.1)
        })
    }

    fn reach(&self, field: &Field, outer: u64, inner: &[u64]) -> Reach {
        let stride = step(field, inner.len() + 1).0.max(1);
        let moves = field.steps.iter().rev().zip(inner.iter().rev());
        let span = field.size as i64 + moves.map(|(step, count)| step.0 * (*count as i64 - 1)).sum::<i64>();
        let count = outer as i64;
        // A value touches the request if a + x * stride + span > start and a + x * stride < end.
        let first = (self.start - field.a - span).div_euclid(stride) + 1;
        let last = (self.end - field.a + stride - 1).div_euclid(stride);
        let touched = (first.clamp(0, count), last.clamp(0, count));
        // A value lies within it if a + x * stride >= start and a + x * stride + span <= end.
        let first = (self.start - field.a + stride - 1).div_euclid(stride);
        let last = (self.end - field.a - span).div_euclid(stride) + 1;
        let whole = (first.clamp(0, count), last.clamp(0, count));
        let whole = if whole.0 < whole.1 { whole } else { (touched.1, touched.1) };
        Reach { touched: (touched.0, touched.1.max(touched.0)), whole }
    }

    /// Handles values of the outermost count that lie partly in the request, at its beginning or end.
    fn partly(
        &mut self,
        fields: &[Field],
        reaches: &[Reach],
        inner: &[u64],
        which: impl Fn(&Reach) -> (i64, i64),
    ) -> Result<(), E> {
        let mut values: Vec<i64> = reaches.iter().flat_map(|reach| which(reach).0..which(reach).1).collect();
        values.sort_unstable();
        values.dedup();
        for value in values {
            let here =
                fields.iter().zip(reaches).filter(|(_, reach)| (which(reach).0..which(reach).1).contains(&value));
            let here: Vec<Field> = here.map(|(field, _)| moved(field, value, inner.len() + 1)).collect();
            if !here.is_empty() {
                self.level(here, inner)?;
            }
        }
        Ok(())
    }

    /// Handles values of the outermost count that lie completely in the request, in runs with the same fields.
    fn wholly(&mut self, fields: &[Field], reaches: &[Reach], counts: &[u64]) -> Result<(), E> {
        let mut ends: Vec<i64> = reaches.iter().flat_map(|reach| [reach.whole.0, reach.whole.1]).collect();
        ends.sort_unstable();
        ends.dedup();
        for run in ends.windows(2) {
            let &[from, to] = run else { continue };
            let here = fields.iter().zip(reaches).filter(|(_, reach)| reach.whole.0 <= from && to <= reach.whole.1);
            let here: Vec<Field> = here.map(|(field, _)| moved(field, from, counts.len())).collect();
            if here.is_empty() {
                continue;
            }
            let mut counts = counts.to_vec();
            if let Some(outer) = counts.first_mut() {
                *outer = (to - from) as u64;
            }
            (self.each)(Clipped { file: self.file, fields: last_steps(here, counts.len()), counts, only: None })?;
        }
        Ok(())
    }

    /// Handles single runs of bytes. The remaining counts do not move them in the view.
    fn leaf(&mut self, fields: Vec<Field>, counts: &[u64]) -> Result<(), E> {
        let mut whole = Vec::new();
        for field in last_steps(fields, counts.len()) {
            let from = (self.start - field.a).max(0);
            let to = (self.end - field.a).min(field.size as i64);
            if from >= to {
                continue;
            }
            if from == 0 && to == field.size as i64 {
                whole.push(field);
            } else {
                let only = Some((from as u64, to as u64));
                (self.each)(Clipped { file: self.file, counts: counts.to_vec(), fields: vec![field], only })?;
            }
        }
        if whole.is_empty() {
            Ok(())
        } else {
            (self.each)(Clipped { file: self.file, counts: counts.to_vec(), fields: whole, only: None })
        }
    }
}

/// Returns the steps of the outermost count, if `depth` counts remain.
fn step(field: &Field, depth: usize) -> (i64, i64) {
    field.steps.len().checked_sub(depth).and_then(|i| field.steps.get(i)).copied().unwrap_or((0, 0))
}

/// Returns the field at one repetition of the outermost count, if `depth` counts remain.
fn moved(field: &Field, value: i64, depth: usize) -> Field {
    let step = step(field, depth);
    Field { a: field.a + step.0 * value, b: field.b + step.1 * value, ..field.clone() }
}

fn last_steps(mut fields: Vec<Field>, depth: usize) -> Vec<Field> {
    for field in &mut fields {
        field.steps.drain(..field.steps.len().saturating_sub(depth));
    }
    fields
}
