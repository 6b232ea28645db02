//! Attributes and fill values, compared with a plain model: values of Rust, written as text by the test.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;

use half::f16;
use proptest::prelude::*;
use support::{Random, declare, oracle};
use terrace_views::import::{Format, import};
use terrace_views::layout::hdf5::{Content, Group, head};
use terrace_views::layout::{of_replica, of_view};
use terrace_views::model::{Attribute, Items, Model, Primitive, Sizes, Value};
use terrace_views::{Diagnostics, language};

/// Returns the model of a text, or the first of its errors.
fn model(text: &str) -> Result<Model, String> {
    let mut diagnostics = Diagnostics::default();
    let parsed = language::parse(text, 0, &mut diagnostics);
    let model = Model::of(&parsed.file, &mut diagnostics);
    match diagnostics.failed() {
        true => Err(diagnostics.sorted().remove(0).message),
        false => Ok(model),
    }
}

fn text(r: &mut Random) -> String {
    let parts =
        ["K", "", "degrees_north", "\"", "\\", "\n", "\t", "é", "\u{1f600}", " ", "//", "}", "\u{1}", "[", ";", "="];
    r.list(0, 5, |r| r.of(&parts)).concat()
}

/// Writes a text by its rules: all but letters as an escape.
fn quoted(text: &str) -> String {
    let mut units = [0; 2];
    let escaped = text.chars().map(|c| match c.is_ascii_alphanumeric() {
        true => c.to_string(),
        false => c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Returns an item of a number's type: its text and its bytes.
fn number(r: &mut Random, primitive: Primitive) -> (String, Vec<u8>) {
    let bits = r.next() >> r.below(64);
    macro_rules! integer {
        ($kind:ty) => {{
            let value = bits as $kind;
            (value.to_string(), value.to_le_bytes().to_vec())
        }};
    }
    let special = r.chance(20).then(|| r.of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-7, 1e300]));
    match primitive {
        Primitive::Int8 => integer!(i8),
        Primitive::Int16 => integer!(i16),
        Primitive::Int32 => integer!(i32),
        Primitive::Int64 => integer!(i64),
        Primitive::Uint8 => integer!(u8),
        Primitive::Uint16 => integer!(u16),
        Primitive::Uint32 => integer!(u32),
        Primitive::Uint64 => integer!(u64),
        Primitive::Bool => ((bits % 2 == 1).to_string(), vec![(bits % 2) as u8]),
        Primitive::Float16 => {
            let value = special.map_or(f16::from_bits(bits as u16), f16::from_f64);
            let value = if value.is_nan() { f16::NAN } else { value };
            (format!("{:?}", value.to_f32()).to_lowercase(), value.to_le_bytes().to_vec())
        }
        Primitive::Float32 => {
            let value = special.map_or(f32::from_bits(bits as u32), |value| value as f32);
            let value = if value.is_nan() { f32::NAN } else { value };
            (format!("{value:?}").to_lowercase(), value.to_le_bytes().to_vec())
        }
        _ => {
            let value = special.unwrap_or(f64::from_bits(bits));
            let value = if value.is_nan() { f64::NAN } else { value };
            (format!("{value:?}").to_lowercase(), value.to_le_bytes().to_vec())
        }
    }
}

const NUMBER_TYPES: [Primitive; 12] = [
    Primitive::Int8,
    Primitive::Int16,
    Primitive::Int32,
    Primitive::Int64,
    Primitive::Uint8,
    Primitive::Uint16,
    Primitive::Uint32,
    Primitive::Uint64,
    Primitive::Bool,
    Primitive::Float16,
    Primitive::Float32,
    Primitive::Float64,
];

/// Nests items in lists of these lengths.
fn nested(lengths: &[u64], items: &mut dyn Iterator<Item = String>) -> String {
    match lengths.split_first() {
        None => items.next().unwrap(),
        Some((length, inner)) => {
            format!("[{}]", (0..*length).map(|_| nested(inner, items)).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns a random value and its text.
fn value(r: &mut Random) -> (Value, String) {
    let lengths: Vec<u64> = match r.below(10) {
        0..4 => Vec::new(),
        4 => vec![0],
        _ => r.list(1, 3, |r| 1 + r.below(3)),
    };
    let count = lengths.iter().product::<u64>();
    let (kind, items, texts) = match r.below(3) {
        0 => {
            let texts = r.list(count, count, text);
            ("string".to_owned(), Items::Text(texts.clone()), texts.iter().map(|text| quoted(text)).collect())
        }
        // HDF5 has no list of no such texts: NetCDF writes the empty text so.
        1 if count > 0 => {
            let texts = r.list(count, count, text);
            ("char".to_owned(), Items::Char(texts.clone()), texts.iter().map(|text| quoted(text)).collect())
        }
        _ => {
            let primitive = r.of(&NUMBER_TYPES);
            let numbers = r.list(count, count, |r| number(r, primitive));
            let (texts, bytes): (Vec<String>, Vec<Vec<u8>>) = numbers.into_iter().unzip();
            (primitive.to_string(), Items::Numbers(primitive, bytes.concat()), texts)
        }
    };
    let texts: Vec<String> = texts;
    let text = format!("{kind} {}", nested(&lengths, &mut texts.into_iter()));
    (Value { lengths, items }, text)
}

/// Returns random attributes with different names, and their lines.
fn attributes(r: &mut Random, of: &str, lines: &mut String) -> Vec<Attribute> {
    let mut all: Vec<Attribute> = Vec::new();
    for number in 0..r.below(5) {
        let name = match r.chance(50) {
            true => format!("{}{number}", text(r)),
            false => format!("{}{number}", r.of(&["units", "_FillValue", "scale_factor"])),
        };
        let (value, text) = value(r);
        lines.push_str(&format!("    attribute {of} {} = {text}\n", quoted(&name)));
        all.push(Attribute { name, value });
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The text means the value, the value's own text means it, too, and so does an HDF5 file that is imported again.
    #[test]
    fn attributes_stay_as_they_are(seed: u64) {
        let r = &mut Random::new(seed);
        let mut lines = String::new();
        let of_dataset = attributes(r, "", &mut lines);
        let of_variable = attributes(r, "t", &mut lines);
        let of_member = attributes(r, "points.x", &mut lines);
        let expected = [("", of_dataset), ("t", of_variable), ("points.x", of_member)];
        let declared = format!(
            "dataset {{\n    var t [5, 3]int16\n    var points [4]struct {{ x float32; y [2]int8 }}\n{lines}}}\n\
             view all {{ var t [a, b] = t[a, b]; var points = points }}\n"
        );
        let check = |model: &Model, of: &str| {
            for (path, attributes) in &expected {
                let own = if path.is_empty() { &model.dataset.attributes[..] } else { model.dataset.attributes_of(path) };
                assert_eq!(own, attributes, "{of} of {declared}");
            }
        };
        let first = model(&declared).unwrap();
        check(&first, "the text");
        let mut diagnostics = Diagnostics::default();
        check(&model(&language::print(&language::parse(&declared, 0, &mut diagnostics))).unwrap(), "the printed text");

        let layout = of_view(&first.views[0], &first.dataset, &Sizes::new()).unwrap();
        let variables = layout.describe(&first.views[0], 0, &first.dataset).unwrap();
        let groups = vec![Group { name: String::new(), variables }];
        let content = Content { attributes: first.dataset.attributes.clone(), groups, has_scales: r.chance(50) };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.h5");
        let mut file = head(&content, layout.files[0]).unwrap();
        file.resize(file.len() + layout.files[0] as usize, 0);
        fs::write(&path, file).unwrap();
        let imported = import(&path, Some(Format::Hdf5), 1).unwrap();
        prop_assert_eq!(&imported.left_out, &Vec::<String>::new());
        // HDF5 pads such texts, so zeros at their ends are gone; the test's texts have none.
        check(&model(&imported.declaration).unwrap(), "the HDF5 file");
    }

    /// Bytes of files that have only fill values, in pieces of any length, are those that the oracle gives.
    #[test]
    fn fill_values_are_at_the_places_of_elements(seed: u64) {
        let r = &mut Random::new(seed);
        let plain = declare::declaration(r);
        let Ok(first) = model(&plain) else { return Ok(()) };
        // A length of arrays, which is an integer, has no fill value.
        let is_float = |primitive| matches!(primitive, Primitive::Float16 | Primitive::Float32 | Primitive::Float64);
        let mut fills = Vec::new();
        let mut lines = String::new();
        for (number, leaf) in first.dataset.leaves.iter().enumerate().filter(|(_, leaf)| is_float(leaf.primitive)) {
            let (text, bytes) = self::number(r, leaf.primitive);
            lines.push_str(&format!("fill {} = {text}\n", leaf.path));
            fills.push((number, bytes));
        }
        let model = model(&format!("{plain}\ndataset {{\n{lines}}}\n")).unwrap();
        let sizes: Sizes = (0..model.dataset.variables.len()).map(|variable| (variable, r.below(6))).collect();
        for (leaf, bytes) in &fills {
            let expected = bytes.iter().any(|byte| *byte != 0).then_some(bytes);
            prop_assert_eq!(model.dataset.leaves[*leaf].fill.as_ref(), expected);
        }
        let mut memory = oracle::Memory::unwritten(&model, &sizes);
        for replica in &model.replicas {
            let layout = of_replica(replica, &model.views, &model.dataset, &sizes).unwrap();
            for (number, image) in oracle::replica(replica, &model, &sizes).iter().enumerate() {
                let (own, mut bytes, mut at) = (layout.of_file(number), Vec::new(), 0);
                while at < own.files[0] {
                    let mut piece = vec![0; (1 + r.below(40)).min(own.files[0] - at) as usize];
                    own.fill(&model.dataset, at, &mut piece);
                    at += piece.len() as u64;
                    bytes.extend(piece);
                }
                prop_assert_eq!(bytes, memory.render(image), "file {} of {} of {}\n{}", number, replica.name, plain, lines);
            }
        }
    }
}

#[test]
fn values_have_the_usual_types() {
    let text = r#"dataset {
        var t int8
        attribute t whole = -12
        attribute t real = [1, 2.5]
        attribute t text = "K"
        attribute t "of a flag" = true
        attribute hex = 0xff_ff
        attribute none = []
    }"#;
    let model = model(text).unwrap();
    let one = |number: usize| model.dataset.attributes_of("t")[number].value.to_string();
    assert_eq!([one(0), one(1), one(2), one(3)], ["-12", "[1.0, 2.5]", "\"K\"", "true"]);
    let own: Vec<String> = model.dataset.attributes.iter().map(|own| own.value.to_string()).collect();
    assert_eq!(own, ["65535", "[]"]);
}

/// Texts had no escapes once, so a file's name may end with a backslash.
#[test]
fn a_declaration_from_before_texts_had_escapes_means_the_same() {
    let text = "dataset { var a int8 }\nview v { var a = a }\nreplica r \"a\\\" {\n    view v\n}\n";
    assert_eq!(model(text).unwrap().replicas[0].file.as_deref(), Some("a\\"));
}
