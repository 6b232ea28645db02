//! Zarr arrays, and groups of them: `.zarray` of version 2, `zarr.json` of version 3.

mod group;
mod values;

use std::path::Path;

pub(super) use group::{group, is_group};
use serde_json::Value as Json;

use super::npy::{Order, kind, lengths};
use super::python::Value;
use super::{Error, Format, Imported, attribute_line, bad, declaration, fill_line, shown, unsupported};
use crate::model::{Items, Primitive};

/// A folder with one of these files is an array.
pub(super) const ARRAY_FILE_NAMES: [&str; 2] = ["zarr.json", ".zarray"];

/// The attributes of an array of version 2.
const ATTRIBUTES_FILE_NAME: &str = ".zattrs";
/// The attribute with the names of the dimensions, where the metadata has no place for them.
const DIMENSIONS_ATTRIBUTE: &str = "_ARRAY_DIMENSIONS";

/// Returns the text of the attributes in a folder of an array of version 2.
pub(super) fn attributes(folder: &Path) -> Option<String> {
    group::text(&folder.join(ATTRIBUTES_FILE_NAME))
}

/// Returns the declaration of an array. Its chunks are tiles.
pub(super) fn metadata(text: &str, attributes: Option<String>, name: &str) -> Result<Imported, Error> {
    let name = match name.trim_matches('_') {
        "" | "zarr" | "zarray" => "data",
        _ => name,
    };
    let mut left_out = Vec::new();
    let array = array(&parsed(text)?, attributes, &mut left_out)?;
    let (lines, shown) = (array.lines(name, &mut left_out), [shown(name, &array.dimensions)]);
    let text = declaration("A Zarr array.", &lines, &array.flags, &shown);
    let sources = vec![(name.to_owned(), String::new())];
    Ok(Imported { declaration: text, left_out, format: Format::Zarr, sources })
}

/// An array in the language: its type, the flags of a view with its layout, and the names of its dimensions, if all have one.
struct Array {
    kind: String,
    flags: String,
    dimensions: Vec<String>,
    /// The type of elements that are numbers.
    primitive: Option<Primitive>,
    /// The fill value; null without one.
    fill: Json,
    attributes: serde_json::Map<String, Json>,
    /// Whether its fill value stands for missing elements, too: xarray wrote it, in version 2.
    fill_is_missing: bool,
}

impl Array {
    /// Returns the lines that declare and describe a variable of this name.
    fn lines(&self, name: &str, left_out: &mut Vec<String>) -> Vec<String> {
        let mut lines = vec![format!("var {name} {}", self.kind)];
        let is_zero = matches!(&self.fill, Json::String(text) if text.chars().all(|c| matches!(c, 'A' | '=')));
        match self.primitive.map(|primitive| values::element(&self.fill, primitive)) {
            _ if self.fill.is_null() => {}
            Some(Ok(value)) => {
                if matches!(&value.items, Items::Numbers(_, bytes) if bytes.iter().any(|byte| *byte != 0)) {
                    lines.push(fill_line(name, &value));
                }
                if self.fill_is_missing {
                    lines.push(attribute_line(name, "_FillValue", &value));
                }
            }
            Some(Err(why)) => left_out.push(format!("the fill value of {name}: {why}")),
            // Elements of these types have none but zero, which is base64 in version 2.
            None if is_zero
                || self.fill == 0
                || matches!(&self.fill, Json::Array(all) if all.iter().all(|one| *one == 0.0)) => {}
            None => left_out.push(format!("the fill value of {name}: its elements are no numbers")),
        }
        let hidden = |key: &str| key == DIMENSIONS_ATTRIBUTE || self.fill_is_missing && key == "_FillValue";
        describe(name, &self.attributes, self.primitive, hidden, &mut lines, left_out);
        lines
    }
}

/// Adds the lines of attributes; without a variable, of the dataset.
fn describe(
    variable: &str,
    attributes: &serde_json::Map<String, Json>,
    primitive: Option<Primitive>,
    is_hidden: impl Fn(&str) -> bool,
    lines: &mut Vec<String>,
    left_out: &mut Vec<String>,
) {
    for (key, json) in attributes.iter().filter(|(key, _)| !is_hidden(key)) {
        match values::attribute(key.rsplit('/').next().unwrap_or(key), json, primitive) {
            Ok(value) => lines.push(attribute_line(variable, key, &value)),
            Err(why) => {
                let of = if variable.is_empty() { String::new() } else { format!(" of {variable}") };
                left_out.push(format!("the attribute {key}{of}: {why}"));
            }
        }
    }
}

/// Returns the attributes of an array or a group: those of a file of version 2, else those in the metadata.
fn own_attributes(metadata: &Json, file: Option<String>, left_out: &mut Vec<String>) -> serde_json::Map<String, Json> {
    let own = match file.map(|text| parsed(&text)) {
        Some(Ok(json)) => json,
        Some(Err(why)) => {
            left_out.push(format!("the attributes of {ATTRIBUTES_FILE_NAME}: {why}"));
            Json::Null
        }
        None => metadata.get("attributes").cloned().unwrap_or_default(),
    };
    own.as_object().cloned().unwrap_or_default()
}

fn parsed(text: &str) -> Result<Json, Error> {
    values::parsed(text).map_err(|error| Error::Bad(format!("it is no JSON: {error}")))
}

fn array(json: &Json, attributes: Option<String>, left_out: &mut Vec<String>) -> Result<Array, Error> {
    let numbers = |json: &Json| json.as_array()?.iter().map(Json::as_i64).collect::<Option<Vec<i64>>>();
    let Some(shape) = json.get("shape").and_then(numbers) else {
        return bad("it has no shape, so it is no Zarr array");
    };
    if shape.contains(&0) {
        return unsupported("it has no elements");
    }
    let three = json.get("zarr_format").and_then(Json::as_i64) == Some(3);
    let (kind, order, chunks, minor) = if three { third(json)? } else { second(json)? };
    let chunks = numbers(&chunks).unwrap_or_else(|| shape.clone());
    let tiled =
        if chunks == shape { String::new() } else { format!(" tiled({})", lengths(&chunks).trim_matches(['[', ']'])) };
    let flags = format!(" packed{order}{}{tiled}", if minor { " rowminor" } else { "" });
    let attributes = own_attributes(json, attributes, left_out);
    let said = attributes.get(DIMENSIONS_ATTRIBUTE).or(json.get("dimension_names"));
    let names = said.and_then(|names| names.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect());
    let dimensions = names.filter(|names: &Vec<String>| names.len() == shape.len()).unwrap_or_default();
    let primitive = kind.parse().ok().filter(|primitive| crate::model::is_number(*primitive));
    let fill_is_missing = !three && attributes.contains_key(DIMENSIONS_ATTRIBUTE);
    let (kind, fill) = (format!("{}{kind}", lengths(&shape)), json.get("fill_value").cloned().unwrap_or_default());
    Ok(Array { kind, flags, dimensions, primitive, fill, attributes, fill_is_missing })
}

/// The type, its byte order, the chunks, and whether the first index is the fastest.
type Found = (String, &'static str, Json, bool);

fn second(json: &Json) -> Result<Found, Error> {
    let Some(descr) = json.get("dtype") else { return bad("it has no dtype") };
    let mut order = Order::default();
    let kind = kind(&python(descr), &mut order)?;
    let minor = json.get("order").and_then(Json::as_str) == Some("F");
    Ok((kind, order.flag(), json.get("chunks").cloned().unwrap_or_default(), minor))
}

fn third(json: &Json) -> Result<Found, Error> {
    let kind = match json.get("data_type") {
        Some(Json::String(name)) if name.parse::<crate::model::Primitive>().is_ok() => name.clone(),
        Some(other) => return unsupported(format!("it has the type {other}")),
        None => return bad("it has no data_type, so it is no Zarr array"),
    };
    let codecs = json.get("codecs").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let setting = |codec: &str, key: &str| {
        let codec = codecs.iter().find(|c| c.get("name").and_then(Json::as_str) == Some(codec))?;
        codec.get("configuration")?.get(key).cloned()
    };
    let big = setting("bytes", "endian").is_some_and(|endian| endian == "big");
    let order = setting("transpose", "order");
    let minor = match order.as_ref().and_then(Json::as_array) {
        Some(order) => {
            let falling = (0..order.len()).rev().map(Json::from).collect::<Vec<_>>();
            if *order != falling && order.len() > 1 {
                return unsupported("its chunks are transposed otherwise than as a whole");
            }
            order.len() > 1
        }
        None => order.is_some_and(|order| order == "F"),
    };
    let grid = json.get("chunk_grid").and_then(|grid| grid.get("configuration")?.get("chunk_shape").cloned());
    Ok((kind, if big { " big" } else { "" }, grid.unwrap_or_default(), minor))
}

/// Converts JSON to the Python literal that it was written from.
fn python(json: &Json) -> Value {
    match json {
        Json::String(text) => Value::Text(text.clone()),
        Json::Number(number) => Value::Number(number.as_i64().unwrap_or(-1)),
        Json::Array(values) => Value::List(values.iter().map(python).collect()),
        Json::Object(pairs) => Value::Map(pairs.iter().map(|(k, v)| (Value::Text(k.clone()), python(v))).collect()),
        Json::Null | Json::Bool(_) => Value::Word(json.to_string()),
    }
}
