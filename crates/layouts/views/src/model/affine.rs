//! Affine expressions: a constant plus a sum of indices times constants.

use std::collections::HashMap;

use crate::language::ast::{Expression, Term};
use crate::language::{Diagnostic, suggest};

/// `constant + sum of coefficient * index`; no coefficient is 0, and no index occurs twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affine {
    /// The constant term.
    pub constant: i64,
    /// The number of each index and its coefficient, in order.
    pub terms: Vec<(usize, i64)>,
}

/// The meaning of names.
pub(crate) struct Names<'a> {
    pub constants: &'a HashMap<String, i64>,
    /// The indices by number; inner ones last.
    pub indices: &'a [(String, usize)],
    /// Returns whether a name is a variable, to improve the error for an unknown name.
    pub variables: &'a dyn Fn(&str) -> bool,
}

impl Affine {
    pub(crate) fn index(number: usize) -> Affine {
        Affine { constant: 0, terms: vec![(number, 1)] }
    }

    /// Evaluates an expression. The error is a complete diagnostic.
    pub(crate) fn of(expression: &Expression, names: &Names) -> Result<Affine, Diagnostic> {
        let span = expression.span;
        let large = || Diagnostic::error(span, "the value is larger than 2^63");
        match &expression.what {
            Term::Integer(value, _) => Ok(Affine { constant: *value, terms: Vec::new() }),
            Term::Name(name) => {
                if let Some((_, number)) = names.indices.iter().rev().find(|(known, _)| known == name) {
                    return Ok(Affine::index(*number));
                }
                if let Some(value) = names.constants.get(name) {
                    return Ok(Affine { constant: *value, terms: Vec::new() });
                }
                if (names.variables)(name) {
                    let error =
                        Diagnostic::error(span, format!("`{name}` is a variable, whose value is not known here"));
                    return Err(error.help("use constants and indices; a variable alone can be the length of an array"));
                }
                let error = Diagnostic::error(span, format!("there is no constant or index `{name}`"));
                let known =
                    names.indices.iter().map(|(n, _)| n.as_str()).chain(names.constants.keys().map(String::as_str));
                Err(Diagnostic { help: suggest(name, known), ..error })
            }
            Term::Negative(inner) => Affine::of(inner, names)?.times(-1).ok_or_else(large),
            Term::Binary(operator, left, right) => {
                let (a, b) = (Affine::of(left, names)?, Affine::of(right, names)?);
                match operator {
                    '+' => a.plus(&b).ok_or_else(large),
                    '-' => b.times(-1).and_then(|b| a.plus(&b)).ok_or_else(large),
                    '*' if b.terms.is_empty() => a.times(b.constant).ok_or_else(large),
                    '*' if a.terms.is_empty() => b.times(a.constant).ok_or_else(large),
                    '/' | '%' if a.terms.is_empty() && b.terms.is_empty() => {
                        let value = if *operator == '/' {
                            a.constant.checked_div(b.constant)
                        } else {
                            a.constant.checked_rem(b.constant)
                        };
                        let zero = || Diagnostic::error(right.span, "this divides by zero");
                        value.map(|constant| Affine { constant, terms: Vec::new() }).ok_or_else(zero)
                    }
                    _ => {
                        let error =
                            Diagnostic::error(span, "an index can only be multiplied with a constant, and added to");
                        Err(error.help("write it as data[i*5 + 2]"))
                    }
                }
            }
        }
    }

    fn times(mut self, factor: i64) -> Option<Affine> {
        self.constant = self.constant.checked_mul(factor)?;
        for (_, coefficient) in &mut self.terms {
            *coefficient = coefficient.checked_mul(factor)?;
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        Some(self)
    }

    fn plus(mut self, other: &Affine) -> Option<Affine> {
        self.constant = self.constant.checked_add(other.constant)?;
        for (index, coefficient) in &other.terms {
            match self.terms.iter_mut().find(|(known, _)| known == index) {
                Some((_, sum)) => *sum = sum.checked_add(*coefficient)?,
                None => self.terms.push((*index, *coefficient)),
            }
        }
        self.terms.retain(|(_, coefficient)| *coefficient != 0);
        self.terms.sort_unstable();
        Some(self)
    }

    /// Returns the smallest and the largest value if each index stays below its length; `None` if they overflow.
    pub fn range(&self, lengths: &[u64]) -> Option<(i128, i128)> {
        let (mut least, mut most) = (i128::from(self.constant), i128::from(self.constant));
        for (index, coefficient) in &self.terms {
            let last = i128::from(*lengths.get(*index)?) - 1;
            let reach = i128::from(*coefficient).checked_mul(last)?;
            least = least.checked_add(reach.min(0))?;
            most = most.checked_add(reach.max(0))?;
        }
        Some((least, most))
    }
}
