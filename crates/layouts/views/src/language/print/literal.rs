//! Formats values.

use crate::language::ast::{Item, Literal};

/// Returns the text of a value.
pub fn literal(value: &Literal) -> String {
    match &value.kind {
        Some(kind) => format!("{} {}", kind.text, item(&value.item)),
        None => item(&value.item),
    }
}

/// Returns the name of an attribute as a word if it can be one, else as a text.
pub fn attribute_name(name: &str) -> String {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_word && name.starts_with(|c: char| !c.is_ascii_digit()) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

fn item(value: &Item) -> String {
    match value {
        Item::Text(text) => quoted(text),
        Item::Word(word) => word.clone(),
        Item::List(items) => format!("[{}]", items.iter().map(item).collect::<Vec<_>>().join(", ")),
    }
}

/// Texts are written as in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
