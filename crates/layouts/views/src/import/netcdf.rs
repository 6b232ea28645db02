//! Classic NetCDF files: CDF-1, CDF-2 and CDF-5. The view is the file byte for byte, header and padding included.

use super::{Error, Format, Imported, attribute_line, bad, declaration, fill_line, identifier, shown, unsupported};
use crate::model::{Items, Primitive, Value};

struct Reader<'a> {
    rest: &'a [u8],
    /// CDF-5 uses counts of 8 bytes.
    wide: bool,
}

struct Variable {
    name: String,
    /// The lengths. A 0 at the front means one value per record.
    shape: Vec<u64>,
    /// The names of the dimensions.
    dimensions: Vec<String>,
    kind: &'static str,
    size: u64,
    begin: u64,
    record: bool,
    attributes: Vec<Attribute>,
}

/// A name, and a value or the reason why the language has none for it.
type Attribute = (String, Result<Value, String>);

/// Maximum length of lists and names. No real file reaches it, and it bounds memory for damaged files.
const MAX_LIST_LENGTH: u64 = 65_536;

/// Returns the declaration of a file that begins with these bytes.
pub(super) fn header(bytes: &[u8]) -> Result<Imported, Error> {
    let Some((&[b'C', b'D', b'F', version @ (1 | 2 | 5)], rest)) = bytes.split_first_chunk() else {
        return bad("it is no classic NetCDF file");
    };
    let mut reader = Reader { rest, wide: version == 5 };
    let records = reader.count()?;
    let dimensions = reader.list(10, |r| Ok((r.name()?, r.count()?)))?;
    let attributes = reader.list(12, Reader::attribute)?;
    let mut variables = reader.list(11, |r| variable(r, &dimensions, version))?;
    variables.sort_by_key(|v| v.begin);
    let mut left_out = Vec::new();
    let mut described = lines("", &attributes, None, &mut left_out);
    for v in variables.iter().filter(|v| v.record && records == 0) {
        left_out.push(format!("/{}: it has no elements", v.name));
    }
    for v in variables.iter().filter(|v| !v.record || records > 0) {
        let path = if v.record { format!("record.{}", v.name) } else { v.name.clone() };
        described.extend(lines(&path, &v.attributes, Some(v.kind), &mut left_out));
    }
    let declaration = lay(&variables, records, described)?;
    Ok(Imported { declaration, left_out, format: Format::Netcdf, sources: Vec::new() })
}

/// Returns the lines of attributes of a variable of this type; without a variable, of the dataset.
fn lines(variable: &str, attributes: &[Attribute], kind: Option<&str>, left_out: &mut Vec<String>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in attributes {
        match value {
            Ok(value) => {
                let is_element = |primitive: &Primitive| kind == Some(&primitive.to_string());
                let is_fill = matches!(&value.items, Items::Numbers(primitive, _) if is_element(primitive));
                if name == "_FillValue" && is_fill && value.lengths.is_empty() {
                    lines.push(fill_line(variable, value));
                }
                lines.push(attribute_line(variable, name, value));
            }
            Err(why) if variable.is_empty() => left_out.push(format!("the attribute {name}: {why}")),
            Err(why) => left_out.push(format!("the attribute {name} of {variable}: {why}")),
        }
    }
    lines
}

fn variable(reader: &mut Reader, dimensions: &[(String, u64)], version: u8) -> Result<Variable, Error> {
    let name = reader.name()?;
    let rank = reader.count()?;
    if rank > 64 {
        return bad("a variable has more than 64 dimensions");
    }
    let (mut shape, mut names) = (Vec::new(), Vec::new());
    for _ in 0..rank {
        let Some((name, length)) = usize::try_from(reader.count()?).ok().and_then(|i| dimensions.get(i)) else {
            return bad("a variable names a dimension that is not there");
        };
        shape.push(*length);
        names.push(name.clone());
    }
    let attributes = reader.list(12, Reader::attribute)?;
    let (kind, size) = kind(reader.number(4)?)?;
    reader.count()?;
    let begin = reader.number(if version == 1 { 4 } else { 8 })?;
    let record = shape.first() == Some(&0);
    Ok(Variable { name: identifier(&name), shape, dimensions: names, kind, size, begin, record, attributes })
}

/// The number of the type of characters.
const CHARACTER_TYPE_CODE: u64 = 2;

fn kind(code: u64) -> Result<(&'static str, u64), Error> {
    Ok(match code {
        1 => ("int8", 1),
        2 => ("uint8", 1),
        3 => ("int16", 2),
        4 => ("int32", 4),
        5 => ("float32", 4),
        6 => ("float64", 8),
        7 => ("uint8", 1),
        8 => ("uint16", 2),
        9 => ("uint32", 4),
        10 => ("int64", 8),
        11 => ("uint64", 8),
        _ => return unsupported(format!("it has a type of number {code}")),
    })
}

/// Writes variables at their offsets; records are structs. The lines that describe them follow.
fn lay(variables: &[Variable], records: u64, described: Vec<String>) -> Result<String, Error> {
    let (mut lines, mut names, mut at) = (Vec::new(), Vec::new(), 0u64);
    let mut gap = |lines: &mut Vec<String>, at: u64, to: u64| -> Result<(), Error> {
        if to < at {
            return bad("its variables overlap");
        }
        if to > at {
            let name = if at == 0 { "_header".to_owned() } else { format!("_padding{at}") };
            lines.push(format!("var {name} [{}]uint8", to - at));
            names.push(name);
        }
        Ok(())
    };
    let mut all = Vec::new();
    for v in variables.iter().filter(|v| !v.record) {
        gap(&mut lines, at, v.begin)?;
        lines.push(format!("var {} {}{}", v.name, shape(&v.shape), v.kind));
        // An index needs a value.
        let dimensions = if v.shape.contains(&0) { &[][..] } else { &v.dimensions };
        all.push((v.begin, shown(&v.name, dimensions)));
        at = v.begin.saturating_add(bytes(v, &v.shape));
    }
    let recorded: Vec<&Variable> = variables.iter().filter(|v| v.record).collect();
    if let Some(first) = recorded.first().filter(|_| records > 0) {
        gap(&mut lines, at, first.begin)?;
        let mut fields = Vec::new();
        for v in &recorded {
            let own = v.shape.get(1..).unwrap_or_default();
            fields.push(format!("{} {}{}", v.name, shape(own), v.kind));
            // Each variable is padded to 4 bytes, unless it is the only one.
            let short = bytes(v, own).next_multiple_of(4) - bytes(v, own);
            if short > 0 && recorded.len() > 1 {
                fields.push(format!("_padding_{} [{short}]uint8", v.name));
            }
        }
        lines.push(format!("var record [{records}]struct {{ {} }}", fields.join("; ")));
        all.push((first.begin, shown("record", first.dimensions.get(..1).unwrap_or_default())));
    }
    lines.extend(described);
    let place = |name: &String| name.strip_prefix("_padding").and_then(|at| at.parse().ok()).unwrap_or(0);
    let mut all: Vec<_> = names.iter().map(|name| (place(name), shown(name, &[]))).chain(all).collect();
    all.sort_by_key(|(at, _)| *at);
    let order: Vec<String> = all.into_iter().map(|(_, name)| name).collect();
    Ok(declaration("A classic NetCDF file, header included.", &lines, " packed big", &order))
}

fn bytes(variable: &Variable, shape: &[u64]) -> u64 {
    shape.iter().fold(variable.size, |product, length| product.saturating_mul(*length)).min(1 << 62)
}

fn shape(shape: &[u64]) -> String {
    super::npy::lengths(&shape.iter().map(|l| i64::try_from(*l).unwrap_or(i64::MAX)).collect::<Vec<_>>())
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let cut = usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length));
        let Some((taken, rest)) = cut else { return bad("it ends within its header") };
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, width: u64) -> Result<u64, Error> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn count(&mut self) -> Result<u64, Error> {
        self.number(if self.wide { 8 } else { 4 })
    }

    fn name(&mut self) -> Result<String, Error> {
        let length = self.count()?;
        let name = self.take(length)?;
        self.take(length.next_multiple_of(4) - length)?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn list<T>(&mut self, tag: u64, mut item: impl FnMut(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        let (found, count) = (self.number(4)?, self.count()?);
        if (found, count) != (0, 0) && found != tag || count > MAX_LIST_LENGTH {
            return bad("a list in its header is damaged");
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn attribute(&mut self) -> Result<Attribute, Error> {
        let name = self.name()?;
        let code = self.number(4)?;
        let (kind, size) = kind(code)?;
        let count = self.count()?;
        let length = count.saturating_mul(size).min(1 << 62);
        let bytes = self.take(length.next_multiple_of(4))?.get(..length as usize).unwrap_or_default();
        let lengths = if count == 1 { Vec::new() } else { vec![count] };
        let value = match kind.parse::<Primitive>() {
            _ if code == CHARACTER_TYPE_CODE => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => {
                    let items = Items::Char(vec![text.trim_end_matches('\0').to_owned()]);
                    Ok(Value { lengths: Vec::new(), items })
                }
                Err(_) => Err("its text is not UTF-8".to_owned()),
            },
            Ok(primitive) => {
                let mut bytes = bytes.to_vec();
                bytes.chunks_mut(size as usize).for_each(<[u8]>::reverse);
                Ok(Value { lengths, items: Items::Numbers(primitive, bytes) })
            }
            Err(()) => Err(format!("its items have the type {kind}")),
        };
        Ok((name, value))
    }
}
