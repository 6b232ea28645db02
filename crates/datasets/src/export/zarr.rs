//! Zarr 3 stores: a folder for each array, chunks as files, those of zeros left out.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use terrace_views::layout::Placed;
use terrace_views::model::Primitive;

use super::{STEP, failed};
use crate::Result;
use crate::loaded::Seen;
use crate::view::View;

impl View {
    pub(super) fn export_zarr(&self, to: &Path) -> Result<()> {
        let (loaded, _) = self.dataset().shared.now()?;
        let number = loaded.view(self.name())?;
        let layout = loaded.layout(Seen::Plain(number))?;
        fs::create_dir(to).map_err(|error| failed(to, error))?;
        group(to)?;
        for (leaf, placed) in layout.leaves.iter().enumerate() {
            let mut folder = to.to_owned();
            let mut names = placed.path.split('.').peekable();
            while let Some(name) = names.next() {
                folder.push(name);
                if names.peek().is_some() && !folder.exists() {
                    fs::create_dir(&folder).map_err(|error| failed(&folder, error))?;
                    group(&folder)?;
                }
            }
            fs::create_dir(&folder).map_err(|error| failed(&folder, error))?;
            self.array(leaf, placed, &folder)?;
        }
        Ok(())
    }

    fn array(&self, leaf: usize, placed: &Placed, folder: &Path) -> Result<()> {
        let (kind, inner) = data_type(placed.primitive);
        let mut shape: Vec<u64> = placed.loops.iter().map(|walk| walk.length).collect();
        let scalar = shape.is_empty();
        shape.extend(inner);
        let row = shape.iter().skip(1).product::<u64>() * (placed.primitive.size() / inner.unwrap_or(1)).max(1);
        let mut chunk = shape.clone();
        if let Some(first) = chunk.first_mut().filter(|_| !scalar) {
            *first = (STEP / row.max(1)).clamp(1, (*first).max(1));
        }
        let zeros = match placed.primitive {
            Primitive::Bool => json!(false),
            Primitive::Complex64 | Primitive::Complex128 => json!([0.0, 0.0]),
            Primitive::Float16 | Primitive::Float32 | Primitive::Float64 => json!(0.0),
            _ => json!(0),
        };
        let metadata = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": kind,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "fill_value": zeros,
            "attributes": {},
        });
        write(&folder.join("zarr.json"), &metadata)?;
        let whole = chunk.iter().product::<u64>() * (placed.primitive.size() / inner.unwrap_or(1)).max(1);
        let length = placed.count() * placed.primitive.size();
        let (mut number, mut at) = (0, 0);
        while at < length {
            let mut bytes = vec![0; whole as usize];
            let part = bytes.get_mut(..whole.min(length - at) as usize).unwrap_or_default();
            self.read_seen(|view| Seen::Leaf(view, leaf), at, part)?;
            if bytes.iter().any(|byte| *byte != 0) {
                let path = chunk_path(folder, number, shape.len());
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
                fs::write(&path, &bytes).map_err(|error| failed(&path, error))?;
            }
            (number, at) = (number + 1, at + whole);
        }
        Ok(())
    }
}

/// The file of the chunk that is so many from the first along the first dimension.
fn chunk_path(folder: &Path, number: u64, dimensions: usize) -> PathBuf {
    let mut path = folder.join("c");
    for dimension in 0..dimensions {
        path.push(if dimension == 0 { number.to_string() } else { "0".to_owned() });
    }
    path
}

fn group(folder: &Path) -> Result<()> {
    write(&folder.join("zarr.json"), &json!({"zarr_format": 3, "node_type": "group", "attributes": {}}))
}

fn write(path: &Path, value: &Value) -> Result<()> {
    fs::write(path, format!("{value:#}\n")).map_err(|error| failed(path, error))
}

/// The name of a type, and for texts, which are bytes there, how many.
fn data_type(primitive: Primitive) -> (String, Option<u64>) {
    match primitive {
        Primitive::String(_) => ("uint8".to_owned(), Some(primitive.size())),
        other => (other.to_string(), None),
    }
}
