//! Arithmetic expressions.

use super::{Parser, Result, Wrong};
use crate::language::Diagnostic;
use crate::language::ast::{At, Expression, Term};
use crate::language::token::Kind;

impl Parser<'_, '_> {
    pub(super) fn expression(&mut self) -> Result<Expression> {
        self.sum(0)
    }

    /// Parses operators with at least this precedence; they are left-associative.
    fn sum(&mut self, least: u8) -> Result<Expression> {
        let mut left = self.factor()?;
        let mut length = 0;
        while let Some((operator, strength)) = self.peek().filter(|w| w.kind == Kind::Mark).and_then(|w| binary(w.text))
        {
            if strength < least {
                break;
            }
            self.at += 1;
            length += 1;
            if length > super::MAX_NESTING_DEPTH {
                self.diagnostics.push(
                    Diagnostic::error(self.last(), "this has too many terms").help("name parts of it, with `const`"),
                );
                return Err(Wrong);
            }
            let right = self.deeper(left.span, |parser| parser.sum(strength + 1))?;
            let span = left.span.to(right.span);
            left = At { what: Term::Binary(operator, Box::new(left), Box::new(right)), span };
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression> {
        let word = self.next_word("a number or a name")?;
        let what = match (word.kind, word.text) {
            (Kind::Mark, "-") => Term::Negative(Box::new(self.deeper(word.span, |parser| parser.factor())?)),
            (Kind::Mark, "(") => {
                let inner = self.deeper(word.span, |parser| parser.expression())?;
                self.mark(")", "`)`")?;
                return Ok(inner);
            }
            (Kind::Word, text) if !text.contains('-') => Term::Name(text.to_owned()),
            (Kind::Number, text) => match number(text) {
                Some(number) => Term::Integer(number, text.to_owned()),
                None => {
                    let error = Diagnostic::error(word.span, format!("`{text}` is no number"));
                    self.diagnostics.push(error.help("write whole numbers below 2^63, as 10, 1_000 or 0x1f"));
                    return Err(Wrong);
                }
            },
            _ => return self.unexpected(word, "a number or a name"),
        };
        Ok(At { what, span: word.span.to(self.last()) })
    }
}

/// Returns an operator and its precedence.
fn binary(mark: &str) -> Option<(char, u8)> {
    Some(match mark {
        "+" => ('+', 1),
        "-" => ('-', 1),
        "*" => ('*', 2),
        "/" => ('/', 2),
        "%" => ('%', 2),
        _ => return None,
    })
}

fn number(text: &str) -> Option<i64> {
    let plain = text.replace('_', "");
    match plain.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => plain.parse().ok(),
    }
}
