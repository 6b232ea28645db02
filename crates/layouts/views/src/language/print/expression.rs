//! Formats arithmetic expressions with the fewest parentheses.

use crate::language::ast::{Expression, Term};

/// Returns the text of an expression.
pub fn expression(expression: &Expression) -> String {
    write(expression, 0)
}

/// Returns the text of an expression within an operator of precedence `around`.
fn write(expression: &Expression, around: u8) -> String {
    match &expression.what {
        Term::Integer(_, text) => text.clone(),
        Term::Name(name) => name.clone(),
        Term::Negative(inner) => format!("-{}", write(inner, 3)),
        Term::Binary(operator, left, right) => {
            let strength = if matches!(operator, '+' | '-') { 1 } else { 2 };
            let (left, right) = (write(left, strength), write(right, strength + 1));
            let gap = if strength == 1 { " " } else { "" };
            let text = format!("{left}{gap}{operator}{gap}{right}");
            if strength < around { format!("({text})") } else { text }
        }
    }
}
