//! Attributes of a dataset and of its variables, and fill values.

use std::fmt;

use half::f16;

use super::Primitive;
use crate::language::Span;
use crate::language::ast::{Item, Literal, Name};

/// An attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The lengths; empty for a single item.
    pub lengths: Vec<u64>,
    /// The items, with the last index fastest.
    pub items: Items,
}

/// The items of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Items {
    /// Texts, each of its own length.
    Text(Vec<String>),
    /// Texts that HDF5 stores in equally many bytes, as NetCDF does by default.
    Char(Vec<String>),
    /// Little-endian numbers, or booleans.
    Numbers(Primitive, Vec<u8>),
}

/// One item of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A text.
    Text(&'a str),
    /// An integer.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// A boolean.
    Bool(bool),
}

/// The types of texts.
const TEXT_KINDS: [&str; 2] = ["string", "char"];

impl Value {
    /// Returns the value that a text of the language means, or what is wrong with it.
    pub(crate) fn of(literal: &Literal) -> Result<Value, String> {
        let (mut lengths, mut flat) = (Vec::new(), Vec::new());
        flatten(&literal.item, 0, &mut lengths, &mut flat)?;
        let kind = match &literal.kind {
            Some(kind) => kind.text.as_str(),
            None => usual_kind(&flat),
        };
        let is_text = |item: &&Item| matches!(item, Item::Text(_));
        if flat.iter().any(is_text) && !flat.iter().all(is_text) {
            return Err("a value has texts or numbers, not both".to_owned());
        }
        let texts =
            || flat.iter().filter_map(|item| if let Item::Text(text) = item { Some(text.clone()) } else { None });
        let items = match kind {
            _ if TEXT_KINDS.contains(&kind) != flat.iter().all(is_text) && !flat.is_empty() => {
                return Err(format!("this is no value of the type `{kind}`"));
            }
            "string" => Items::Text(texts().collect()),
            "char" => Items::Char(texts().collect()),
            kind => {
                let primitive = kind.parse::<Primitive>().ok().filter(|primitive| is_number(*primitive));
                let primitive = primitive.ok_or_else(|| format!("values have no type `{kind}`"))?;
                let words = flat.iter().filter_map(|item| if let Item::Word(word) = item { Some(word) } else { None });
                let bytes: Result<Vec<_>, _> = words.map(|word| number(primitive, word)).collect();
                Items::Numbers(primitive, bytes?.concat())
            }
        };
        Ok(Value { lengths, items })
    }

    /// Returns the value as the language writes it.
    pub(crate) fn literal(&self) -> Literal {
        let (kind, flat) = match &self.items {
            Items::Text(texts) => ("string".to_owned(), texts.iter().cloned().map(Item::Text).collect::<Vec<_>>()),
            Items::Char(texts) => ("char".to_owned(), texts.iter().cloned().map(Item::Text).collect()),
            Items::Numbers(primitive, bytes) => {
                let words = bytes.chunks(primitive.size().max(1) as usize).map(|bytes| word(*primitive, bytes));
                (primitive.to_string(), words.map(Item::Word).collect())
            }
        };
        let usual = usual_kind(&flat.iter().collect::<Vec<_>>()) == kind;
        let kind = (!usual).then(|| Name { text: kind, span: Span::default() });
        Literal { kind, item: nested(&self.lengths, &mut flat.into_iter()) }
    }

    /// Returns the items, with the last index fastest.
    pub fn scalars(&self) -> Vec<Scalar<'_>> {
        match &self.items {
            Items::Text(texts) | Items::Char(texts) => texts.iter().map(|text| Scalar::Text(text)).collect(),
            Items::Numbers(primitive, bytes) => {
                bytes.chunks(primitive.size().max(1) as usize).map(|bytes| scalar(*primitive, bytes)).collect()
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::language::literal(&self.literal()))
    }
}

/// Returns whether numbers of a type can be values.
pub(crate) fn is_number(primitive: Primitive) -> bool {
    !matches!(primitive, Primitive::String(_) | Primitive::Complex64 | Primitive::Complex128)
}

/// Returns the type of items without one.
fn usual_kind(items: &[&Item]) -> &'static str {
    let is_float = |word: &str| {
        !word.contains("0x") && word.contains(['.', 'e', 'E']) || word.contains("inf") || word.ends_with("nan")
    };
    match items.first() {
        Some(Item::Text(_)) | None => "string",
        Some(Item::Word(word)) if matches!(word.as_str(), "true" | "false") => "bool",
        _ if items.iter().any(
            |item| matches!(item, Item::Word(word) if is_float(word) && !matches!(word.as_str(), "true" | "false")),
        ) =>
        {
            "float64"
        }
        _ => "int64",
    }
}

/// Collects the items of nested lists. Lists of the same depth have equal lengths.
fn flatten<'a>(item: &'a Item, depth: usize, lengths: &mut Vec<u64>, flat: &mut Vec<&'a Item>) -> Result<(), String> {
    let uneven = || Err("the lists of a value have different lengths".to_owned());
    let Item::List(items) = item else {
        flat.push(item);
        return if lengths.len() == depth { Ok(()) } else { uneven() };
    };
    match lengths.get(depth) {
        Some(length) if *length != items.len() as u64 => return uneven(),
        Some(_) => {}
        None if flat.is_empty() => lengths.push(items.len() as u64),
        None => return uneven(),
    }
    items.iter().try_for_each(|item| flatten(item, depth + 1, lengths, flat))
}

fn nested(lengths: &[u64], flat: &mut impl Iterator<Item = Item>) -> Item {
    match lengths.split_first() {
        None => flat.next().unwrap_or_else(|| Item::List(Vec::new())),
        Some((length, inner)) => Item::List((0..*length).map(|_| nested(inner, flat)).collect()),
    }
}

/// Returns the little-endian bytes of a number.
pub(crate) fn number(primitive: Primitive, word: &str) -> Result<Vec<u8>, String> {
    use Primitive::*;
    let wrong = || format!("`{word}` is no value of the type `{primitive}`");
    let digits = word.replace('_', "");
    let (minus, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", &*digits),
    };
    match primitive {
        Bool => match word {
            "true" | "1" => Ok(vec![1]),
            "false" | "0" => Ok(vec![0]),
            _ => Err(wrong()),
        },
        Float16 => {
            let value: f32 = format!("{minus}{digits}").parse().map_err(|_| wrong())?;
            Ok(f16::from_f32(value).to_le_bytes().to_vec())
        }
        Float32 => {
            format!("{minus}{digits}").parse().map(|value: f32| value.to_le_bytes().to_vec()).map_err(|_| wrong())
        }
        Float64 => {
            format!("{minus}{digits}").parse().map(|value: f64| value.to_le_bytes().to_vec()).map_err(|_| wrong())
        }
        _ => {
            let value = match digits.strip_prefix("0x") {
                Some(hex) => i128::from_str_radix(&format!("{minus}{hex}"), 16),
                None => format!("{minus}{digits}").parse(),
            };
            let value: i128 = value.map_err(|_| wrong())?;
            let bytes = value.to_le_bytes().get(..primitive.size() as usize).unwrap_or_default().to_vec();
            (primitive.integer(&bytes, false) == Some(value)).then_some(bytes).ok_or_else(wrong)
        }
    }
}

/// Returns the number that little-endian bytes are.
fn scalar(primitive: Primitive, bytes: &[u8]) -> Scalar<'static> {
    use Primitive::*;
    match (primitive, bytes) {
        (Bool, bytes) => Scalar::Bool(bytes != [0]),
        (Float16, &[a, b]) => Scalar::Float(f16::from_le_bytes([a, b]).into()),
        (Float32, &[a, b, c, d]) => Scalar::Float(f32::from_le_bytes([a, b, c, d]).into()),
        (Float64, bytes) => Scalar::Float(bytes.try_into().map_or(0.0, f64::from_le_bytes)),
        _ => Scalar::Integer(primitive.integer(bytes, false).unwrap_or(0)),
    }
}

/// Returns a number as the language writes it: the shortest text that means this number in its type.
fn word(primitive: Primitive, bytes: &[u8]) -> String {
    match scalar(primitive, bytes) {
        Scalar::Text(text) => text.to_owned(),
        Scalar::Integer(value) => value.to_string(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Float(value) if primitive == Primitive::Float64 => format!("{value:?}").to_lowercase(),
        Scalar::Float(value) => format!("{:?}", value as f32).to_lowercase(),
    }
}
