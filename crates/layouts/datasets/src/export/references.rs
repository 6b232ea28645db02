//! References (kerchunk, version 1; Zarr 2) into a replica that is one plain file, so that other tools read it in
//! place.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use terrace::NewFile;
use terrace_views::layout::{Described, Element};
use terrace_views::model::Attribute;

use super::json::{self, MISSING_ATTRIBUTE};
use super::{are_names, export_error};
use crate::loaded::Loaded;
use crate::stored::StoredFile;
use crate::view::View;
use crate::{Error, Result};

/// Maximum length of a referenced chunk, if the array's length allows such a division.
const MAX_REFERENCED_CHUNK_BYTES: u64 = 16 << 20;

impl View {
    pub(super) fn export_references(&self, to: &Path) -> Result<()> {
        let shared = &self.dataset().shared;
        // Recent writes may not have reached their plain file yet; a reader of the references would miss them.
        shared.store.sync()?;
        let (loaded, state) = shared.load()?;
        let number = loaded.view(self.name())?;
        let current = state.current(&loaded);
        let refused =
            |why: &str| Err(Error::Refused(format!("the view {:?} cannot be referred to: {why}", self.name())));
        let Some((view, layout)) = loaded.declared.model.views.get(number).zip(loaded.views.get(number)) else {
            return refused("it is gone");
        };
        let Some(variables) = layout.describe(view, 0, &loaded.declared.model.dataset) else {
            return refused("it lies in tiles, blocks or along a curve; export a view without these");
        };
        for (replica, declared) in loaded.declared.model.replicas.iter().enumerate() {
            let stored = declared.views.contains(&number) && current.get(replica) == Some(&true);
            let Some((file, start)) = stored.then(|| find_view_file(&loaded, replica, self.name())).flatten() else {
                continue;
            };
            if let Some(path) = find_plain_file(&shared.store.locate(&file.key)?) {
                let refs = build_references(&loaded.declared.model.dataset.attributes, &variables, &path, start)?;
                let text = format!("{}\n", json!({"version": 1, "refs": refs}));
                let write = |mut file: NewFile| file.write_all(text.as_bytes()).and_then(|()| file.finish());
                return NewFile::create(to, text.len() as u64).and_then(write).map_err(|error| export_error(to, error));
            }
        }
        refused("no replica that stores it is one plain file; give its tier, or a rule for it, layout = \"plain\"")
    }
}

/// Returns the file of a replica that stores a view, and the offset of the view in it.
fn find_view_file<'a>(loaded: &'a Loaded, replica: usize, view: &str) -> Option<(&'a StoredFile, u64)> {
    let stored = loaded.replicas.get(replica)?;
    let prefix = format!("{view}/");
    let mut own = stored.layout.variables.iter().filter(|extent| extent.name.starts_with(&prefix));
    let first = own.next()?;
    let one_file = own.all(|extent| extent.file == first.file);
    let seen = loaded.views.get(loaded.view(view).ok()?)?.variables.first()?;
    let file = loaded.files.get(stored.first_file + first.file)?;
    one_file.then_some((file, first.offset - seen.offset))
}

/// Returns the file that stores all bytes of an object in order and unencoded, if there is one.
fn find_plain_file(location: &terrace::report::Location) -> Option<PathBuf> {
    let extents = &location.extents;
    let candidates = extents.first()?.replicas.iter().filter_map(|replica| replica.file.clone());
    let mut whole = candidates.filter(|file| {
        extents.iter().all(|extent| {
            extent.replicas.iter().any(|replica| {
                replica.file.as_ref() == Some(file)
                    && replica.position == Some(extent.offset)
                    && replica.stored >= extent.length
            })
        }) && fs::metadata(file).is_ok_and(|metadata| metadata.len() == location.length)
    });
    whole.next()
}

fn build_references(
    attributes: &[Attribute],
    variables: &[Described],
    path: &Path,
    start: u64,
) -> Result<Map<String, Value>> {
    let mut refs = Map::new();
    refs.insert(".zgroup".to_owned(), json!(json!({"zarr_format": 2}).to_string()));
    if !attributes.is_empty() {
        refs.insert(".zattrs".to_owned(), json!(json!(json::attributes(attributes)).to_string()));
    }
    for variable in variables {
        let row = variable.lengths.iter().skip(1).product::<u64>() * variable.element.size();
        let count = variable.lengths.first().copied().unwrap_or(1);
        // References require equal chunks; an array that cannot be divided so is one chunk.
        let fits = |rows: &u64| count.is_multiple_of(*rows);
        let most = (MAX_REFERENCED_CHUNK_BYTES / row.max(1)).clamp(1, count.max(1));
        let rows = (most / 16..=most).rev().filter(|rows| *rows > 0).find(fits).unwrap_or(count.max(1));
        let mut chunks = variable.lengths.clone();
        if let Some(first) = chunks.first_mut() {
            *first = rows;
        }
        let metadata = json!({
            "zarr_format": 2,
            "shape": variable.lengths,
            "chunks": chunks,
            "dtype": numpy_type(&variable.element)?,
            "compressor": null,
            "fill_value": missing(variable),
            "filters": null,
            "order": "C",
        });
        refs.insert(format!("{}/.zarray", variable.name), json!(metadata.to_string()));
        let mut attributes = json::attributes(&variable.attributes);
        attributes.remove(MISSING_ATTRIBUTE);
        if are_names(&variable.dimensions, variable.lengths.len()) {
            attributes.insert("_ARRAY_DIMENSIONS".to_owned(), json!(variable.dimensions));
        }
        if !attributes.is_empty() {
            refs.insert(format!("{}/.zattrs", variable.name), json!(json!(attributes).to_string()));
        }
        let rest = ".0".repeat(variable.lengths.len().saturating_sub(1));
        for chunk in 0..count.div_ceil(rows) {
            let (offset, length) = (start + variable.offset + chunk * rows * row, rows * row);
            refs.insert(format!("{}/{chunk}{rest}", variable.name), json!([path, offset, length]));
        }
    }
    Ok(refs)
}

/// Returns the fill value for Zarr 2, which xarray takes for that of missing elements. No chunk is missing, so it has no other use.
fn missing(variable: &Described) -> Value {
    let attribute = variable.attributes.iter().find(|one| one.name == MISSING_ATTRIBUTE);
    match (attribute.map(|one| one.value.scalars()).as_deref(), &variable.element) {
        (Some(&[scalar]), Element::Primitive(..)) => json::scalar(scalar),
        _ => Value::Null,
    }
}

/// Returns the NumPy type of an element.
fn numpy_type(element: &Element) -> Result<Value> {
    Ok(match element {
        Element::Primitive(primitive, big) => json!(primitive.numpy_name(*big)),
        Element::Struct(members, size) => {
            let (mut all, mut at) = (Vec::new(), 0);
            let pad = |from: u64, to: u64, all: &mut Vec<Value>| {
                if from < to {
                    all.push(json!([format!("padding{from}"), format!("|V{}", to - from)]));
                }
            };
            for (name, offset, member) in members {
                pad(at, *offset, &mut all);
                all.push(match member {
                    Element::Array(lengths, inner) => json!([name, numpy_type(inner)?, lengths]),
                    other => json!([name, numpy_type(other)?]),
                });
                at = offset + member.size();
            }
            pad(at, *size, &mut all);
            json!(all)
        }
        Element::Array(..) => return Err(Error::Refused("an array of arrays cannot be referred to".to_owned())),
    })
}
