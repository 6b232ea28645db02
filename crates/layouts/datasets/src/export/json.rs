//! Values in JSON, as Zarr has them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value as Json, json};
use terrace_views::model::{Attribute, Primitive, Scalar, Value};

/// The attribute with the value that stands for missing elements.
pub const MISSING_ATTRIBUTE: &str = "_FillValue";

/// Returns attributes as an object. JSON has no numbers that are infinite or none, so they are texts, as Zarr writes its fill values.
pub fn attributes(attributes: &[Attribute]) -> Map<String, Json> {
    attributes.iter().map(|one| (one.name.clone(), value(&one.value))).collect()
}

/// Returns the attributes of an array of Zarr 3. There xarray expects one value of missing elements, and of floats in base64.
pub fn attributes_of_array(attributes: &[Attribute], primitive: Primitive) -> Map<String, Json> {
    let mut all = self::attributes(attributes);
    let is_float = matches!(primitive, Primitive::Float16 | Primitive::Float32 | Primitive::Float64);
    let missing = attributes.iter().find(|one| one.name == MISSING_ATTRIBUTE);
    if let Some(&[missing]) = missing.map(|one| one.value.scalars()).as_deref() {
        let json = match missing {
            Scalar::Float(number) if is_float => json!(BASE64_STANDARD.encode(number.to_le_bytes())),
            other => scalar(other),
        };
        all.insert(MISSING_ATTRIBUTE.to_owned(), json);
    }
    all
}

pub fn value(value: &Value) -> Json {
    nested(&value.lengths, &mut value.scalars().into_iter())
}

fn nested(lengths: &[u64], items: &mut dyn Iterator<Item = Scalar<'_>>) -> Json {
    match lengths.split_first() {
        None => items.next().map_or(Json::Null, scalar),
        Some((length, inner)) => (0..*length).map(|_| nested(inner, items)).collect(),
    }
}

pub fn scalar(scalar: Scalar<'_>) -> Json {
    match scalar {
        Scalar::Text(text) => json!(text),
        Scalar::Bool(value) => json!(value),
        // No type of the language has larger integers.
        Scalar::Integer(value) => i64::try_from(value).map_or_else(|_| json!(value as u64), |value| json!(value)),
        Scalar::Float(value) if value.is_nan() => json!("NaN"),
        Scalar::Float(f64::INFINITY) => json!("Infinity"),
        Scalar::Float(f64::NEG_INFINITY) => json!("-Infinity"),
        Scalar::Float(value) => json!(value),
    }
}
