//! Python literals.

use super::{Error, bad};

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    /// `True`, `None` and other names.
    Word(String),
    /// A tuple or a list.
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

impl Value {
    /// Returns the value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let Value::Map(pairs) = self else { return None };
        pairs.iter().find(|(known, _)| *known == Value::Text(key.to_owned())).map(|(_, value)| value)
    }

    /// Returns the values of a list.
    pub fn list(&self) -> Option<&[Value]> {
        if let Value::List(values) = self { Some(values) } else { None }
    }

    /// Returns a list of lengths; a number is a list of one.
    pub fn lengths(&self) -> Option<Vec<i64>> {
        let number = |value: &Value| if let Value::Number(number) = value { Some(*number) } else { None };
        match self {
            Value::List(values) => values.iter().map(number).collect(),
            other => number(other).map(|number| vec![number]),
        }
    }

    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }
}

/// Parses a literal. A call around it, as in `dtype(...)`, is skipped.
pub(super) fn literal(text: &str) -> Result<Value, Error> {
    let mut rest = text.trim();
    for call in ["numpy.dtype(", "np.dtype(", "dtype("] {
        if let Some(inner) = rest.strip_prefix(call) {
            rest = inner.trim_end().strip_suffix(')').unwrap_or(inner);
        }
    }
    let mut reader = Reader { rest, depth: 0 };
    let value = reader.value()?;
    let after = reader.rest.trim_start();
    // Further arguments, such as align=True, are already reflected in the text before them.
    if after.is_empty() || after.starts_with(',') {
        Ok(value)
    } else {
        bad(format!("{:?} does not belong there", head(after)))
    }
}

fn head(text: &str) -> String {
    text.chars().take(20).collect()
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, Error> {
        self.depth += 1;
        if self.depth > 32 {
            return bad("it is nested more than 32 levels deep");
        }
        self.rest = self.rest.trim_start();
        let value = match self.rest.chars().next() {
            Some(quote @ ('\'' | '"')) => {
                let inner = self.rest.get(1..).unwrap_or_default();
                let Some((text, rest)) = inner.split_once(quote) else { return bad("a text is never closed") };
                self.rest = rest;
                Value::Text(text.to_owned())
            }
            Some('b' | 'u') if self.rest[1..].starts_with(['\'', '"']) => {
                self.rest = &self.rest[1..];
                self.value()?
            }
            Some('(') => Value::List(self.items(')')?.into_iter().map(|(value, _)| value).collect()),
            Some('[') => Value::List(self.items(']')?.into_iter().map(|(value, _)| value).collect()),
            Some('{') => {
                let pair = |(key, value): (Value, Option<Value>)| (key, value.unwrap_or(Value::Word(String::new())));
                Value::Map(self.items('}')?.into_iter().map(pair).collect())
            }
            _ => {
                let end = self
                    .rest
                    .find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.'))
                    .unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                if word.is_empty() {
                    return bad(format!("{:?} is no value", head(self.rest)));
                }
                self.rest = rest;
                word.parse().map_or_else(|_| Value::Word(word.to_owned()), Value::Number)
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Parses values up to a closing mark, each with an optional value after a colon.
    fn items(&mut self, close: char) -> Result<Vec<(Value, Option<Value>)>, Error> {
        let mut items = Vec::new();
        self.rest = self.rest.get(1..).unwrap_or_default();
        loop {
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                return Ok(items);
            }
            let key = self.value()?;
            self.rest = self.rest.trim_start();
            let value = match self.rest.strip_prefix(':') {
                Some(rest) => {
                    self.rest = rest;
                    Some(self.value()?)
                }
                None => None,
            };
            items.push((key, value));
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None if self.rest.starts_with(close) => {}
                None => return bad(format!("{:?} where {close:?} should be", head(self.rest))),
            }
        }
    }
}
