//! NumPy files and dtypes.

use super::python::{Value, literal};
use super::{Error, bad, declaration, identifier, shown, unsupported};

/// The header of a NumPy file.
pub(super) const NPY_MAGIC: &[u8] = b"\x93NUMPY";

/// Returns the declaration of a NumPy file. Its header is a variable as well, so that the view equals the file byte for
/// byte. Also returns what the declaration cannot express.
pub(super) fn file(bytes: &[u8], name: &str) -> Result<(String, Vec<String>), Error> {
    let wide = bytes.get(6).is_some_and(|major| *major > 1);
    let length = match bytes.get(8..12) {
        Some(&[a, b, c, d]) if wide => u32::from_le_bytes([a, b, c, d]) as usize,
        Some(&[a, b, ..]) => usize::from(u16::from_le_bytes([a, b])),
        _ => return bad("it ends within its header"),
    };
    let start = if wide { 12 } else { 10 };
    let Some(header) = bytes.get(start..start + length).and_then(|h| std::str::from_utf8(h).ok()) else {
        return bad("it ends within its header");
    };
    let header = literal(header)?;
    let (Some(descr), Some(shape)) = (header.get("descr"), header.get("shape").and_then(Value::lengths)) else {
        return bad("its header lacks descr or shape");
    };
    let mut order = Order::default();
    let kind = kind(descr, &mut order)?;
    let minor = header.get("fortran_order") == Some(&Value::Word("True".to_owned()));
    let lines = [format!("var header [{}]uint8", start + length), format!("var {name} {}{kind}", lengths(&shape))];
    let flags = format!(" packed{}{}", order.flag(), if minor { " rowminor" } else { "" });
    let text = declaration("A NumPy file.", &lines, &flags, &[shown("header", &[]), shown(name, &[])]);
    Ok((text, times(descr).map(|time| format!("the unit of {time}, whose numbers are an int64")).collect()))
}

/// Returns the dtypes of times in a dtype.
fn times(descr: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match descr {
        Value::Text(text) if text.trim_start_matches(['<', '>', '=', '|']).starts_with(['M', 'm']) => {
            Box::new(std::iter::once(text.as_str()))
        }
        Value::List(items) => {
            Box::new(items.iter().flat_map(|item| item.list().and_then(|field| field.get(1))).flat_map(times))
        }
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the declaration of `count` elements of a dtype.
pub(super) fn dtype(text: &str, name: &str, count: u64) -> Result<String, Error> {
    let mut order = Order::default();
    let kind = kind(&literal(text)?, &mut order)?;
    let lines = [format!("const N = {count}"), format!("var {name} [N]{kind}")];
    Ok(declaration("Elements of a NumPy dtype.", &lines, &format!(" packed{}", order.flag()), &[shown(name, &[])]))
}

/// Formats lengths as `[3, 4]`; empty without dimensions.
pub(super) fn lengths(shape: &[i64]) -> String {
    if shape.is_empty() {
        return String::new();
    }
    format!("[{}]", shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))
}

/// The byte order so far; `None` if unknown.
#[derive(Default)]
pub(super) struct Order(Option<bool>);

impl Order {
    pub fn flag(&self) -> &'static str {
        if self.0 == Some(true) { " big" } else { "" }
    }

    fn also(&mut self, big: bool) -> Result<(), Error> {
        match self.0.replace(big) {
            Some(before) if before != big => unsupported("its fields are of both byte orders"),
            _ => Ok(()),
        }
    }
}

/// Returns a type in the language.
pub(super) fn kind(descr: &Value, order: &mut Order) -> Result<String, Error> {
    match descr {
        Value::Text(text) => simple(text, order),
        Value::List(fields) => fields_of(fields, order),
        Value::Map(_) => spread(descr, order),
        other => bad(format!("{other:?} is no dtype")),
    }
}

fn simple(text: &str, order: &mut Order) -> Result<String, Error> {
    let (mark, rest) = match text.chars().next() {
        Some(mark @ ('<' | '>' | '=' | '|')) => (mark, text.get(1..).unwrap_or_default()),
        _ => ('=', text),
    };
    let (code, digits) = rest.split_at(rest.find(|c: char| !c.is_alphabetic() && c != '?').unwrap_or(rest.len()));
    let digits = digits.split('[').next().unwrap_or_default();
    let size: u64 = digits.parse().unwrap_or(if code == "?" { 1 } else { 0 });
    let name = match (code, size) {
        ("?", _) | ("b", 1) => "bool".to_owned(),
        ("i" | "u", 1 | 2 | 4 | 8) => format!("{}int{}", if code == "u" { "u" } else { "" }, size * 8),
        ("f", 2 | 4 | 8) => format!("float{}", size * 8),
        ("c", 8 | 16) => format!("complex{}", size * 8),
        ("M" | "m", 8) => "int64".to_owned(),
        ("S" | "a" | "V", 1..) => format!("[{size}]uint8"),
        ("U", 1..) => format!("[{size}]uint32"),
        // The names that NumPy writes for plain dtypes.
        (word, _) if rest.parse::<crate::model::Primitive>().is_ok() && word != "string" => rest.to_owned(),
        _ => return unsupported(format!("it has the type {text:?}")),
    };
    let one_byte = matches!(&*name, "bool" | "int8" | "uint8") || name.ends_with("]uint8");
    if !one_byte {
        order.also(mark == '>')?;
    }
    Ok(name)
}

/// Parses fields as `(name, type)` or `(name, type, shape)`.
fn fields_of(fields: &[Value], order: &mut Order) -> Result<String, Error> {
    let mut lines = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let Some([name, descr, more @ ..]) = field.list() else { return bad(format!("{field:?} is no field")) };
        let shape = match more.first() {
            Some(shape) => shape.lengths().ok_or_else(|| Error::Bad(format!("{shape:?} is no shape")))?,
            None => Vec::new(),
        };
        // A title may stand before the name.
        let name = name.text().or_else(|| name.list()?.last()?.text()).unwrap_or_default();
        let name = if name.is_empty() { format!("_padding{i}") } else { identifier(name) };
        lines.push(format!("{name} {}{}", lengths(&shape), kind(descr, order)?));
    }
    Ok(format!("struct {{ {} }}", lines.join("; ")))
}

/// Parses fields as lists of names, types and offsets; the gaps between them become padding.
fn spread(descr: &Value, order: &mut Order) -> Result<String, Error> {
    let list = |key: &str| descr.get(key).and_then(Value::list);
    let (Some(names), Some(formats)) = (list("names"), list("formats")) else {
        return bad("it lacks names or formats");
    };
    let offsets = descr.get("offsets").and_then(Value::lengths);
    let mut fields: Vec<(i64, String, String)> = Vec::new();
    let mut next = 0;
    for (i, (name, format)) in names.iter().zip(formats).enumerate() {
        let (format, shape) = match format.list() {
            Some([inner, shape]) if shape.lengths().is_some() => (inner, shape.lengths().unwrap_or_default()),
            _ => (format, Vec::new()),
        };
        let offset = offsets.as_ref().and_then(|o| o.get(i).copied()).unwrap_or(next);
        let kind = format!("{}{}", lengths(&shape), kind(format, order)?);
        next = offset.saturating_add(size(&kind)?);
        fields.push((offset, identifier(name.text().unwrap_or_default()), kind));
    }
    fields.sort();
    let (mut lines, mut at) = (Vec::new(), 0);
    for (offset, name, kind) in fields {
        if offset < at {
            return unsupported("its fields overlap");
        }
        if offset > at {
            lines.push(format!("_padding{at} [{}]uint8", offset - at));
        }
        at = offset.saturating_add(size(&kind)?);
        lines.push(format!("{name} {kind}"));
    }
    if let Some(&[whole]) = descr.get("itemsize").and_then(Value::lengths).as_deref()
        && whole > at
    {
        lines.push(format!("_padding{at} [{}]uint8", whole - at));
    }
    Ok(format!("struct {{ {} }}", lines.join("; ")))
}

/// Returns the size of a type.
fn size(kind: &str) -> Result<i64, Error> {
    use crate::language::{Diagnostics, parse};
    let mut diagnostics = Diagnostics::default();
    let parsed = parse(&format!("dataset {{ var a {kind} }} view v packed {{ var a = a }}"), 0, &mut diagnostics);
    let model = crate::model::Model::of(&parsed.file, &mut diagnostics);
    let layout = model.views.first().map(|view| crate::layout::of_view(view, &model.dataset, &Default::default()));
    match layout {
        Some(Ok(layout)) if !diagnostics.failed() => Ok(layout.files.first().copied().unwrap_or(0) as i64),
        _ => bad(format!("{kind:?} is no type")),
    }
}
