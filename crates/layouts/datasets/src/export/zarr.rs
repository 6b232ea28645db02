//! Zarr 3 stores: a folder for each array and a file for each chunk. Chunks of zeros, or of fill values, are left out.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use terrace::NewFolder;
use terrace_views::layout::Placed;
use terrace_views::model::{self, Attribute, Items, Primitive};

use super::{EXPORT_STEP_BYTES, are_names, export_error, json};
use crate::Result;
use crate::loaded::Projection;
use crate::view::View;

impl View {
    pub(super) fn export_zarr(&self, to: &Path) -> Result<()> {
        let (loaded, _) = self.dataset().shared.load()?;
        let number = loaded.view(self.name())?;
        let layout = loaded.layout(Projection::Plain(number))?;
        let variables = loaded.declared.model.views.get(number).map_or(&[][..], |view| &view.variables);
        let made = NewFolder::create_new(to).map_err(|error| export_error(to, error))?;
        let length = layout.leaves.iter().map(bytes_of).fold(0, u64::saturating_add);
        if let Some(room) = made.room().filter(|room| *room < length) {
            // Which chunks are zero is not known before they are read, so this is only a warning.
            tracing::warn!(
                "{} takes up to {length} bytes, less what is zeros, and {room} are free there: it may not fit",
                to.display()
            );
        }
        let dataset = &loaded.declared.model.dataset;
        write_group(made.path(), &dataset.attributes)?;
        for (leaf, placed) in layout.leaves.iter().enumerate() {
            let mut folder = made.path().to_owned();
            let variable = variables.get(placed.variable);
            // The attributes of a variable are those of its own group, if it has structs.
            let mut attributes = variable.map_or(&[][..], |variable| dataset.attributes_of(&variable.path));
            let mut names = placed.path.split('.').peekable();
            while let Some(name) = names.next() {
                folder.push(name);
                if names.peek().is_some() {
                    if !folder.exists() {
                        fs::create_dir(&folder).map_err(|error| export_error(&folder, error))?;
                        write_group(&folder, attributes)?;
                    }
                    attributes = &[];
                }
            }
            fs::create_dir(&folder).map_err(|error| export_error(&folder, error))?;
            let dimensions = variable.map(|variable| placed.index_names(variable).collect());
            let declared = dataset.leaves.get(placed.leaf);
            let array = Array {
                dimensions: dimensions.unwrap_or_default(),
                attributes: declared.map_or(&[][..], |leaf| dataset.attributes_of(&leaf.path)),
                fill: declared.and_then(|leaf| leaf.fill.as_deref()),
            };
            self.write_array(leaf, placed, array, &folder)?;
        }
        made.finish().map_err(|error| export_error(to, error))
    }

    fn write_array(&self, leaf: usize, placed: &Placed, array: Array<'_>, folder: &Path) -> Result<()> {
        let (kind, inner) = data_type(placed.primitive);
        let mut shape: Vec<u64> = placed.loops.iter().map(|walk| walk.length).collect();
        shape.extend(inner);
        let element = (placed.primitive.size() / inner.unwrap_or(1)).max(1);
        let (chunk, cut) = divide_into_chunks(&shape, element);
        let zeros = match placed.primitive {
            Primitive::Bool => json!(false),
            Primitive::Complex64 | Primitive::Complex128 => json!([0.0, 0.0]),
            Primitive::Float16 | Primitive::Float32 | Primitive::Float64 => json!(0.0),
            _ => json!(0),
        };
        let fill = |bytes: &[u8]| {
            let value = Items::Numbers(placed.primitive, bytes.to_vec());
            json::value(&model::Value { lengths: Vec::new(), items: value })
        };
        let mut metadata = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": kind,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "fill_value": array.fill.map_or(zeros, fill),
            "attributes": json::attributes_of_array(array.attributes, placed.primitive),
        });
        if let Some(metadata) = metadata.as_object_mut().filter(|_| are_names(&array.dimensions, shape.len())) {
            metadata.insert("dimension_names".to_owned(), json!(array.dimensions));
        }
        write_json(&folder.join("zarr.json"), &metadata)?;
        if shape.contains(&0) {
            return Ok(());
        }
        // Chunks have length 1 in the dimensions before the divided one, and full length in those after it.
        let (length, step) = (shape.get(cut).copied().unwrap_or(1), chunk.get(cut).copied().unwrap_or(1));
        let row = shape.iter().skip(cut + 1).product::<u64>() * element;
        let rows = shape.iter().take(cut).product::<u64>();
        for number in 0..rows * length.div_ceil(step) {
            let (outer, first) = (number / length.div_ceil(step), number % length.div_ceil(step) * step);
            let mut bytes = vec![0; (step * row) as usize];
            let part = bytes.get_mut(..(step.min(length - first) * row) as usize).unwrap_or_default();
            self.read_projection(|view| Projection::Leaf(view, leaf), (outer * length + first) * row, part)?;
            let is_written = match array.fill {
                Some(fill) => part_differs(&bytes, fill, (step.min(length - first) * row) as usize),
                None => bytes.iter().any(|byte| *byte != 0),
            };
            if is_written {
                let path = chunk_path(folder, &shape, cut, outer, first / step);
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent).map_err(|error| export_error(parent, error))?;
                fs::write(&path, &bytes).map_err(|error| export_error(&path, error))?;
            }
        }
        Ok(())
    }
}

/// The metadata of an array besides its type and shape.
struct Array<'a> {
    dimensions: Vec<String>,
    attributes: &'a [Attribute],
    /// The value of elements that were never written, if it is not zero.
    fill: Option<&'a [u8]>,
}

/// Returns whether the first bytes of a chunk, this number, are not only fill values.
fn part_differs(chunk: &[u8], fill: &[u8], length: usize) -> bool {
    chunk.get(..length).unwrap_or_default().chunks(fill.len()).any(|element| element != fill)
}

/// Returns the length of an array in bytes.
fn bytes_of(placed: &Placed) -> u64 {
    placed.loops.iter().map(|walk| walk.length).fold(placed.primitive.size(), u64::saturating_mul)
}

/// Returns the shape of chunks of at most [`EXPORT_STEP_BYTES`], and the dimension that they divide.
fn divide_into_chunks(shape: &[u64], element: u64) -> (Vec<u64>, usize) {
    let mut chunk: Vec<u64> = shape.iter().map(|length| (*length).max(1)).collect();
    let mut bytes = element;
    for at in (0..chunk.len()).rev() {
        let whole = chunk.get(at).map_or(bytes, |length| bytes.saturating_mul(*length));
        if whole > EXPORT_STEP_BYTES {
            chunk.iter_mut().take(at).for_each(|length| *length = 1);
            if let Some(length) = chunk.get_mut(at) {
                *length = (EXPORT_STEP_BYTES / bytes).max(1);
            }
            return (chunk, at);
        }
        bytes = whole;
    }
    (chunk, 0)
}

/// Returns the path of a chunk. `row` is the position in the dimensions before the divided one, in row-major order;
/// `number` is the chunk's number along the divided one.
fn chunk_path(folder: &Path, shape: &[u64], cut: usize, row: u64, number: u64) -> PathBuf {
    let mut places = vec![0; shape.len()];
    let mut left = row;
    for (place, length) in places.iter_mut().zip(shape).take(cut).rev() {
        (*place, left) = (left % length, left / length);
    }
    if let Some(place) = places.get_mut(cut) {
        *place = number;
    }
    let mut path = folder.join("c");
    path.extend(places.iter().map(u64::to_string));
    path
}

fn write_group(folder: &Path, attributes: &[Attribute]) -> Result<()> {
    let attributes = json::attributes(attributes);
    write_json(&folder.join("zarr.json"), &json!({"zarr_format": 3, "node_type": "group", "attributes": attributes}))
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    fs::write(path, format!("{value:#}\n")).map_err(|error| export_error(path, error))
}

/// Returns the Zarr name of a type and, for texts, which Zarr stores as bytes, the number of bytes.
fn data_type(primitive: Primitive) -> (String, Option<u64>) {
    match primitive {
        Primitive::String(_) => ("uint8".to_owned(), Some(primitive.size())),
        other => (other.to_string(), None),
    }
}
