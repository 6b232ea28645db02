//! Creates declarations from the metadata of files in other formats.

mod c;
mod hdf5;
mod netcdf;
mod npy;
mod python;
mod stored;
mod zarr;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::language::{self, Diagnostics, Severity, attribute_name};
use crate::model::{Model, Value};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A NumPy file, or a file with a dtype in Python's notation.
    Numpy,
    /// The metadata of a Zarr array of version 2 or 3, or the folder of a group.
    Zarr,
    /// A C header.
    C,
    /// A classic NetCDF file.
    Netcdf,
    /// An HDF5 file, including NetCDF-4 files.
    Hdf5,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Ok(match name {
            "numpy" | "npy" => Format::Numpy,
            "zarr" => Format::Zarr,
            "c" => Format::C,
            "netcdf" => Format::Netcdf,
            "hdf5" => Format::Hdf5,
            _ => return Err(format!("there is no format {name:?}; take numpy, zarr, c, netcdf or hdf5")),
        })
    }
}

/// Why a file cannot be imported.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Io(#[from] std::io::Error),
    /// Neither the name nor the content identifies the format.
    #[error("it is not known what this is; say --from numpy, zarr, c, netcdf or hdf5")]
    Unknown,
    /// The file violates its format.
    #[error("{0}")]
    Bad(String),
    /// The language cannot express the content.
    #[error("{0}, which the dataset language cannot say")]
    Unsupported(String),
}

pub(crate) fn bad<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Bad(what.into()))
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Unsupported(what.into()))
}

/// The maximum number of bytes that are read from a file; metadata is small.
const MAX_METADATA_BYTES: u64 = 4 << 20;

/// The result of importing a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The declaration.
    pub declaration: String,
    /// The parts of the file that it leaves out, and why.
    pub left_out: Vec<String>,
    /// The format of the file.
    pub format: Format,
    /// The variables whose elements the file has, with their paths in it. Empty for classic NetCDF, where the view is the
    /// file, and for formats without elements.
    pub sources: Vec<(String, String)>,
}

/// Returns a declaration of a file's content: a dataset, and a view with the file's layout. `count` is the number of
/// structs of a C header. An HDF5 file's views store the variables one after the other, which need not be their
/// positions in the file.
///
/// # Errors
/// [`Error`] if the file cannot be read or understood, or if the language cannot express its content.
pub fn import(path: &Path, format: Option<Format>, count: u64) -> Result<Imported, Error> {
    if path.is_dir() && zarr::is_group(path) {
        let imported = zarr::group(path)?;
        return Ok(Imported { declaration: formatted(&imported.declaration)?, ..imported });
    }
    let inner = zarr::ARRAY_FILE_NAMES.map(|name| path.join(name)).into_iter().find(|path| path.is_file());
    let mut bytes = Vec::new();
    File::open(inner.as_deref().unwrap_or(path))?.take(MAX_METADATA_BYTES).read_to_end(&mut bytes)?;
    let name = identifier(&path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default());
    let format = format.or_else(|| guess(inner.as_deref().unwrap_or(path), &bytes)).ok_or(Error::Unknown)?;
    let text = || std::str::from_utf8(&bytes).map_err(|_| Error::Bad("it is no text".to_owned()));
    let whole = |declaration| Imported { declaration, left_out: Vec::new(), format, sources: Vec::new() };
    let imported = match format {
        Format::Numpy if bytes.starts_with(npy::NPY_MAGIC) => {
            npy::file(&bytes, &name).map(|(declaration, left_out)| Imported {
                left_out,
                sources: vec![(name, String::new())],
                ..whole(declaration)
            })
        }
        Format::Numpy => npy::dtype(text()?, &name, count).map(whole),
        Format::Zarr => zarr::metadata(text()?, zarr::attributes(path), &name),
        Format::C => c::header(text()?, count).map(whole),
        Format::Netcdf => netcdf::header(&bytes),
        Format::Hdf5 => hdf5::file(path),
    }?;
    Ok(Imported { declaration: formatted(&imported.declaration)?, ..imported })
}

/// Formats the text as `fmt` does. An invalid declaration is an error.
fn formatted(text: &str) -> Result<String, Error> {
    let mut diagnostics = Diagnostics::default();
    let parsed = language::parse(text, 0, &mut diagnostics);
    if !diagnostics.failed() {
        Model::of(&parsed.file, &mut diagnostics);
    }
    match diagnostics.sorted().into_iter().find(|d| d.severity == Severity::Error) {
        Some(wrong) => unsupported(wrong.message),
        None => Ok(language::print(&parsed)),
    }
}

fn guess(path: &Path, bytes: &[u8]) -> Option<Format> {
    let name = path.file_name()?.to_string_lossy();
    let extension = path.extension().map(|e| e.to_string_lossy()).unwrap_or_default();
    Some(match () {
        () if bytes.starts_with(npy::NPY_MAGIC) => Format::Numpy,
        () if bytes.starts_with(b"CDF") => Format::Netcdf,
        () if bytes.starts_with(b"\x89HDF") => Format::Hdf5,
        () if matches!(&*name, "zarr.json" | ".zarray") || extension == "zarray" => Format::Zarr,
        () if matches!(&*extension, "h" | "c" | "hpp" | "hh") => Format::C,
        () if extension == "dtype" => Format::Numpy,
        () => return None,
    })
}

/// Returns a valid identifier for a name.
pub(crate) fn identifier(name: &str) -> String {
    let mut clean: String = name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if clean.chars().next().is_none_or(|c| c.is_numeric()) {
        clean.insert(0, '_');
    }
    clean
}

/// The names of variables, without duplicates.
#[derive(Default)]
pub(crate) struct Names(HashSet<String>);

impl Names {
    /// Returns a name for a path that no other path has.
    pub fn of(&mut self, path: &[String]) -> String {
        let plain = identifier(&path.join("_"));
        let mut name = plain.clone();
        for number in 2.. {
            if self.0.insert(name.clone()) {
                break;
            }
            name = format!("{plain}_{number}");
        }
        name
    }
}

/// Returns the line of a view that shows a whole variable. If its dimensions have different names, they are the indices.
pub(crate) fn shown(variable: &str, dimensions: &[String]) -> String {
    let dimensions: Vec<String> = dimensions.iter().map(|name| identifier(name)).collect();
    let distinct: HashSet<&String> = dimensions.iter().collect();
    if dimensions.is_empty() || distinct.len() < dimensions.len() {
        return format!("var {variable} = {variable}");
    }
    let indices = dimensions.join(", ");
    format!("var {variable} [{indices}] = {variable}[{indices}]")
}

/// Returns the line of a variable's attribute; without a variable, of the dataset's.
pub(crate) fn attribute_line(variable: &str, name: &str, value: &Value) -> String {
    let gap = if variable.is_empty() { "" } else { " " };
    format!("attribute {variable}{gap}{} = {value}", attribute_name(name))
}

/// Returns the line of a variable's fill value.
pub(crate) fn fill_line(variable: &str, value: &Value) -> String {
    let literal = language::ast::Literal { kind: None, ..value.literal() };
    format!("fill {variable} = {}", language::literal(&literal))
}

/// Returns a declaration: a comment, the lines of the dataset, and one view with lines that show its variables.
pub(crate) fn declaration(comment: &str, lines: &[String], flags: &str, variables: &[String]) -> String {
    let mut text = format!("// {comment}\ndataset {{\n");
    for line in lines {
        text.push_str(&format!("    {line}\n"));
    }
    text.push_str(&format!("}}\n\nview file{flags} {{\n"));
    for variable in variables {
        text.push_str(&format!("    {variable}\n"));
    }
    text.push_str("}\n");
    text
}
