//! Attributes and fill values in JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value as Json;

use crate::language::Span;
use crate::language::ast::{Item, Literal, Name};
use crate::model::{Items, Primitive, Value};

/// Attributes whose values have the type of the array's elements, which JSON does not record.
const ELEMENT_ATTRIBUTES: [&str; 2] = ["_FillValue", "missing_value"];
/// Begins a text that stands for NaN or an infinity. JSON has no such numbers, but some programs write them.
const NUMBER_MARK: char = '\u{1}';

/// Reads JSON in which numbers may be NaN, Infinity and -Infinity.
pub fn parsed(text: &str) -> serde_json::Result<Json> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&quoted(text)).map_err(|_| error))
}

/// Replaces NaN and infinities by texts that begin with [`NUMBER_MARK`].
fn quoted(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    let (mut within, mut escaped) = (false, false);
    while let Some(first) = rest.chars().next() {
        let number = ["NaN", "Infinity", "-Infinity"].into_iter().find(|number| !within && rest.starts_with(number));
        let length = match number {
            Some(number) => {
                out.push_str(&format!("\"\\u0001{number}\""));
                number.len()
            }
            None => {
                within ^= first == '"' && !escaped;
                escaped = within && first == '\\' && !escaped;
                out.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

/// Returns the value of an attribute of an array of this type, or the reason why the language of datasets cannot express it.
pub fn attribute(name: &str, json: &Json, primitive: Option<Primitive>) -> Result<Value, String> {
    let of_array = primitive.filter(|_| ELEMENT_ATTRIBUTES.contains(&name));
    if let (Some(primitive), Json::String(text)) = (of_array, json)
        && let Ok(Ok(number)) = BASE64_STANDARD.decode(text).map(<[u8; 8]>::try_from)
    {
        // xarray writes the fill value of floats as the base64 of 8 bytes.
        return element(&Json::from(f64::from_le_bytes(number).to_string()), primitive);
    }
    let item = item(json)?;
    let kinds = [of_array, None, Some(Primitive::Uint64)].map(|kind| kind.map(|kind| kind.to_string()));
    let typed = |kind: Option<String>| {
        let kind = kind.map(|text| Name { text, span: Span::default() });
        Value::of(&Literal { kind, item: item.clone() })
    };
    let [own, usual, wide] = kinds;
    own.and_then(|own| typed(Some(own)).ok())
        .map_or_else(|| typed(usual).or_else(|why| typed(wide).map_err(|_| why)), Ok)
}

/// Returns the fill value of an array of this type, or the reason why the language of datasets cannot express it.
pub fn element(json: &Json, primitive: Primitive) -> Result<Value, String> {
    let bits = json.as_str().and_then(|text| text.strip_prefix("0x")).map(|digits| u64::from_str_radix(digits, 16));
    if let Some(bits) = bits {
        let bits = bits.map_err(|_| "it is damaged".to_owned())?.to_le_bytes();
        let bytes = bits.get(..primitive.size() as usize).unwrap_or_default().to_vec();
        return Ok(Value { lengths: Vec::new(), items: Items::Numbers(primitive, bytes) });
    }
    let item = match item(json)? {
        Item::Text(text) => match number(&text.to_lowercase()) {
            Some(word) => Item::Word(word.to_owned()),
            None => Item::Word(text),
        },
        other => other,
    };
    let kind = Some(Name { text: primitive.to_string(), span: Span::default() });
    let value = Value::of(&Literal { kind, item })?;
    if value.lengths.is_empty() { Ok(value) } else { Err("it is a list".to_owned()) }
}

/// Returns the word of the language for a number that JSON does not have.
fn number(text: &str) -> Option<&'static str> {
    match text {
        "nan" => Some("nan"),
        "infinity" | "inf" => Some("inf"),
        "-infinity" | "-inf" => Some("-inf"),
        _ => None,
    }
}

fn item(json: &Json) -> Result<Item, String> {
    Ok(match json {
        Json::Null => return Err("it is null".to_owned()),
        Json::Object(_) => return Err("it is an object".to_owned()),
        Json::Bool(value) => Item::Word(value.to_string()),
        Json::Number(number) => Item::Word(number.to_string()),
        Json::Array(items) => Item::List(items.iter().map(item).collect::<Result<_, _>>()?),
        Json::String(text) => match text.strip_prefix(NUMBER_MARK).and_then(|text| number(&text.to_lowercase())) {
            Some(word) => Item::Word(word.to_owned()),
            None => Item::Text(text.clone()),
        },
    })
}
