//! Computes the elements that two sides share, for each dimension separately.

use super::side::Dimension;
use crate::layout::Part;
use crate::model::{Misfit, Progression, meet};

/// A digit that moves through both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub count: u64,
    pub a: i64,
    pub b: i64,
}

/// The elements that both sides have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joined {
    pub a: i64,
    pub b: i64,
    pub steps: Vec<Step>,
}

/// Digits are divided by factors below this if two sides do not match otherwise.
const MAX_DIVIDED_FACTOR: i128 = 64;

/// The indices that two dimensions share.
pub(crate) fn join(a: &Dimension, b: &Dimension) -> Result<Vec<Joined>, Misfit> {
    let mut joins = Joins { found: Vec::new(), budget: 20_000 };
    joins.go(a.start, a.digits.clone(), b.start, b.digits.clone(), Joined::default())?;
    Ok(joins.found)
}

struct Joins {
    found: Vec<Joined>,
    budget: u32,
}

/// Returns the largest sum of the digits.
fn span(digits: &[Part]) -> i128 {
    digits.iter().map(|d| d.weight * i128::from(d.count - 1)).sum()
}

fn rest(digits: &[Part]) -> Vec<Part> {
    digits.iter().skip(1).copied().collect()
}

impl Joins {
    /// Solves `x + digits of a = y + digits of b`.
    fn go(&mut self, x: i128, mut a: Vec<Part>, y: i128, mut b: Vec<Part>, at: Joined) -> Result<(), Misfit> {
        self.budget = self.budget.checked_sub(1).ok_or(Misfit::TooComplex)?;
        a.retain(|digit| digit.count != 1);
        b.retain(|digit| digit.count != 1);
        if x > y + span(&b) || y > x + span(&a) {
            return Ok(());
        }
        match (&a[..], &b[..]) {
            ([], []) => {
                if x == y {
                    self.found.push(at);
                }
                Ok(())
            }
            ([one], [other]) => {
                self.single(x, *one, y, *other, at);
                Ok(())
            }
            ([], [outer, ..]) => self.fix_b(x, &a, y, &b, *outer, at),
            ([outer, ..], []) => self.fix_a(x, &a, y, &b, *outer, at),
            ([p, ..], [q, ..]) => {
                let (p, q) = (*p, *q);
                if p.weight == q.weight {
                    self.equal(x, &a, y, &b, at)
                } else if span(&b) < p.weight {
                    self.fix_a(x, &a, y, &b, p, at)
                } else if span(&a) < q.weight {
                    self.fix_b(x, &a, y, &b, q, at)
                } else {
                    self.refine(x, a, y, b, at)
                }
            }
        }
    }

    /// Solves for two single digits.
    fn single(&mut self, x: i128, p: Part, y: i128, q: Part, mut at: Joined) {
        let one = Progression { start: x, step: p.weight, count: p.count };
        let other = Progression { start: y, step: q.weight, count: q.count };
        let met = meet(one, other);
        if met.count == 0 {
            return;
        }
        at.a += ((met.start - x) / p.weight) as i64 * p.stride;
        at.b += ((met.start - y) / q.weight) as i64 * q.stride;
        if met.count > 1 {
            let (a, b) = ((met.step / p.weight) as i64 * p.stride, (met.step / q.weight) as i64 * q.stride);
            at.steps.push(Step { count: met.count, a, b });
        }
        self.found.push(at);
    }

    /// Tries each of the few values that the first digit of `a` can have.
    fn fix_a(&mut self, x: i128, a: &[Part], y: i128, b: &[Part], outer: Part, at: Joined) -> Result<(), Misfit> {
        let inner = rest(a);
        let (least, most) = (y - x - span(&inner), y - x + span(b));
        for value in values(outer, least, most)? {
            let at = Joined { a: at.a + value as i64 * outer.stride, ..at.clone() };
            self.go(x + value * outer.weight, inner.clone(), y, b.to_vec(), at)?;
        }
        Ok(())
    }

    fn fix_b(&mut self, x: i128, a: &[Part], y: i128, b: &[Part], outer: Part, at: Joined) -> Result<(), Misfit> {
        let inner = rest(b);
        let (least, most) = (x - y - span(&inner), x - y + span(a));
        for value in values(outer, least, most)? {
            let at = Joined { b: at.b + value as i64 * outer.stride, ..at.clone() };
            self.go(x, a.to_vec(), y + value * outer.weight, inner.clone(), at)?;
        }
        Ok(())
    }

    /// Solves for first digits of equal weight. They differ by at most a few steps, since the remaining digits must
    /// compensate.
    fn equal(&mut self, x: i128, a: &[Part], y: i128, b: &[Part], at: Joined) -> Result<(), Misfit> {
        let (Some(&p), Some(&q)) = (a.first(), b.first()) else { return Ok(()) };
        let (inner_a, inner_b) = (rest(a), rest(b));
        // weight * ahead = (y - x) + inner of b - inner of a
        let least = (y - x - span(&inner_a)).div_euclid(p.weight);
        let most = (y - x + span(&inner_b)).div_euclid(p.weight);
        for ahead in least..=most {
            // The digit of a is the digit of b plus `ahead`.
            let first = (-ahead).max(0);
            let end = i128::from(q.count).min(i128::from(p.count) - ahead);
            if first >= end {
                continue;
            }
            let mut at = at.clone();
            at.a += (first + ahead) as i64 * p.stride;
            at.b += first as i64 * q.stride;
            if end - first > 1 {
                at.steps.push(Step { count: (end - first) as u64, a: p.stride, b: q.stride });
            }
            self.go(x + p.weight * ahead, inner_a.clone(), y, inner_b.clone(), at)?;
        }
        Ok(())
    }

    /// Divides the first digits until their weights are equal.
    fn refine(&mut self, x: i128, a: Vec<Part>, y: i128, b: Vec<Part>, at: Joined) -> Result<(), Misfit> {
        let (Some(&p), Some(&q)) = (a.first(), b.first()) else { return Ok(()) };
        let common = common(p.weight, q.weight);
        let (times_p, times_q) = (common / p.weight, common / q.weight);
        // Either one weight divides the other, or the factors are small; in both cases each digit must be long enough
        // to be cut.
        let long = |digit: Part, times: i128| times == 1 || i128::from(digit.count) > times;
        let fits = (times_p == 1 || times_q == 1 || times_p.max(times_q) <= MAX_DIVIDED_FACTOR)
            && long(p, times_p)
            && long(q, times_q);
        if fits {
            for (first_a, digits_a, skip_a) in cut(&a, times_p) {
                for (first_b, digits_b, skip_b) in cut(&b, times_q) {
                    let at = Joined { a: at.a + skip_a, b: at.b + skip_b, steps: at.steps.clone() };
                    self.go(x + first_a, digits_a.clone(), y + first_b, digits_b, at)?;
                }
            }
            return Ok(());
        }
        if i128::from(p.count.min(q.count)) > MAX_DIVIDED_FACTOR {
            return Err(Misfit::TooComplex);
        }
        if p.count <= q.count { self.fix_a(x, &a, y, &b, p, at) } else { self.fix_b(x, &a, y, &b, q, at) }
    }
}

/// Returns the values of a digit that bring it into a range.
fn values(digit: Part, least: i128, most: i128) -> Result<impl Iterator<Item = i128>, Misfit> {
    let first = (least + digit.weight - 1).div_euclid(digit.weight).max(0);
    let last = most.div_euclid(digit.weight).min(i128::from(digit.count) - 1);
    if last - first > 2 * MAX_DIVIDED_FACTOR { Err(Misfit::TooComplex) } else { Ok(first..=last) }
}

/// Divides the first digit in two; the lower one has `times` values. Values that do not fill a whole upper step become
/// a separate part. Returns the addend of the index, the digits and the addend of the offset.
fn cut(digits: &[Part], times: i128) -> Vec<(i128, Vec<Part>, i64)> {
    let (Some(&outer), inner) = (digits.first(), rest(digits)) else { return Vec::new() };
    if times == 1 {
        return vec![(0, digits.to_vec(), 0)];
    }
    let (whole, left) = (i128::from(outer.count) / times, i128::from(outer.count) % times);
    let with = |first: &[Part]| first.iter().copied().chain(inner.iter().copied()).collect();
    let mut parts = Vec::new();
    if whole > 0 {
        let upper = Part { weight: outer.weight * times, count: whole as u64, stride: outer.stride * times as i64 };
        parts.push((0, with(&[upper, Part { count: times as u64, ..outer }]), 0));
    }
    if left > 0 {
        let skipped = whole * times;
        parts.push((
            skipped * outer.weight,
            with(&[Part { count: left as u64, ..outer }]),
            skipped as i64 * outer.stride,
        ));
    }
    parts
}

/// Returns the least common multiple, or a number that is too large to be useful.
fn common(a: i128, b: i128) -> i128 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b)
}
