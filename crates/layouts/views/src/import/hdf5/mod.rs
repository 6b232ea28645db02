//! HDF5 files, including NetCDF-4 files: a variable for each dataset, in one view, or in one view for each byte order.
//!
//! The language has no groups, so a dataset's path becomes its name. The declaration does not tell the position of the
//! bytes in the file, because they may be in compressed chunks.

mod kinds;
mod scales;
mod values;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use hdf5_reader::group::Group;
use hdf5_reader::{Attribute, Dataset, Hdf5File, OpenOptions};

use kinds::{Order, kind, lengths};

use super::{Error, Format, Imported, Names, attribute_line, bad, fill_line, shown, unsupported};

/// Limits on the number of datasets and the depth of groups. No real file reaches them, and they end the traversal of
/// damaged files with cycles.
const MAX_DATASETS: usize = 65_536;
const MAX_GROUP_DEPTH: usize = 64;
/// The name that NetCDF gives to a dimension without values.
const VALUELESS_DIMENSION_NAME: &str = "This is a netCDF dimension but not a netCDF variable";
/// Maximum memory for an object's header, which a damaged file may claim to be larger.
const MAX_HEADER_BYTES: usize = 16 << 20;

/// Returns the declaration of a file.
pub(super) fn file(path: &Path) -> Result<Imported, Error> {
    let options = OpenOptions::default().with_max_object_header_bytes(MAX_HEADER_BYTES);
    let file = Hdf5File::open_with_options(path, options).map_err(damaged)?;
    let mut found = Found::default();
    found.group(&file.root_group().map_err(damaged)?, &mut Vec::new())?;
    let Found { mut variables, scales, dimension_ids, left_out, attributes, .. } = found;
    for variable in &mut variables {
        let by_id = variable.dimension_ids.iter().map(|id| dimension_ids.get(id));
        let addresses: Option<Vec<&u64>> = variable.scales.iter().map(Some).chain(by_id).collect();
        let names = addresses.and_then(|all| all.into_iter().map(|scale| scales.get(scale).cloned()).collect());
        variable.dimensions = names.unwrap_or_default();
    }
    if variables.is_empty() {
        let why = left_out.first().map_or_else(String::new, |first| format!(": {first}"));
        return unsupported(format!("it holds no dataset that can be a variable{why}"));
    }
    let sources = variables.iter().map(|variable| (variable.name.clone(), variable.path.clone())).collect();
    Ok(Imported { declaration: declaration(&attributes, &variables), left_out, format: Format::Hdf5, sources })
}

fn damaged(error: hdf5_reader::error::Error) -> Error {
    Error::Bad(format!("it cannot be understood as HDF5: {error}"))
}

/// A dataset in the language.
struct Variable {
    name: String,
    /// The path in the file.
    path: String,
    kind: String,
    /// Whether its numbers are big-endian; `None` if it has only single bytes.
    big: Option<bool>,
    /// The addresses of the scales of its dimensions; empty if one has none.
    scales: Vec<u64>,
    /// The numbers of its dimensions, by which NetCDF names those of a scale with several.
    dimension_ids: Vec<i32>,
    /// The names of these scales.
    dimensions: Vec<String>,
    /// The lines with its fill values and attributes.
    described: Vec<String>,
}

/// The findings so far.
#[derive(Default)]
struct Found {
    variables: Vec<Variable>,
    names: Names,
    /// The names of the datasets that may be scales, by their addresses.
    scales: HashMap<u64, String>,
    /// The addresses of scales, by the numbers that NetCDF gives to dimensions.
    dimension_ids: HashMap<i32, u64>,
    /// The lines with the attributes of groups.
    attributes: Vec<String>,
    left_out: Vec<String>,
    /// The visited addresses: a group or dataset may have several names, and contain itself.
    seen: HashSet<u64>,
}

impl Found {
    fn group(&mut self, group: &Group, path: &mut Vec<String>) -> Result<(), Error> {
        if !self.seen.insert(group.address()) {
            self.left_out.push(format!("{} is another name of a group that is in the declaration", show_path(path)));
            return Ok(());
        }
        if path.len() > MAX_GROUP_DEPTH {
            return bad("its groups are nested deeper than 64");
        }
        match group.attributes() {
            Ok(attributes) => self.attributes_of_group(&attributes, path),
            Err(error) => self.left_out.push(format!("the attributes of {}: {error}", show_path(path))),
        }
        let (mut groups, mut datasets) = group.member_names().map_err(damaged)?;
        // Newer files store them in another order.
        groups.sort();
        datasets.sort();
        for name in datasets {
            path.push(name);
            let dataset = group.dataset(path.last().map_or("", String::as_str));
            match dataset.map_err(|error| error.to_string()).and_then(|dataset| self.dataset(&dataset, path)) {
                Ok(()) => {}
                Err(why) => self.left_out.push(format!("{}: {why}", show_path(path))),
            }
            path.pop();
            if self.seen.len() > MAX_DATASETS {
                return bad("it holds more than 65,536 datasets and groups");
            }
        }
        for name in groups {
            let inner = group.group(&name);
            path.push(name);
            match inner {
                Ok(inner) => self.group(&inner, path)?,
                Err(error) => self.left_out.push(format!("{}: {error}", show_path(path))),
            }
            path.pop();
        }
        Ok(())
    }

    /// Adds attributes of a group. The language has no groups, so all but the root's begin with the path.
    fn attributes_of_group(&mut self, attributes: &[Attribute], path: &[String]) {
        for attribute in attributes.iter().filter(|attribute| !scales::is_hidden(&attribute.name, false)) {
            let name = [path, std::slice::from_ref(&attribute.name)].concat().join("/");
            match values::value(attribute) {
                Ok(value) => self.attributes.push(attribute_line("", &name, &value)),
                Err(why) => self.left_out.push(left_out(&attribute.name, path, &why)),
            }
        }
    }

    /// Returns the lines that describe a variable: its fill values and attributes.
    fn described(&mut self, dataset: &Dataset, name: &str, path: &[String]) -> Vec<String> {
        let (mut lines, mut fills) = (Vec::new(), Vec::new());
        if let Some(bytes) = dataset.fill_value().and_then(|fill| fill.value.as_ref()) {
            values::fills(dataset.dtype(), bytes, name, &mut fills);
        }
        for (member, value) in fills {
            match value {
                Ok(value) => lines.push(fill_line(&member, &value)),
                Err(why) => self.left_out.push(format!("the fill value of {}: {why}", show_path(path))),
            }
        }
        let is_scale = scales::is_scale(dataset);
        for attribute in dataset.attributes().iter().filter(|attribute| !scales::is_hidden(&attribute.name, is_scale)) {
            let (of, own) = match values::member(dataset.dtype(), &attribute.name) {
                Some((member, own)) => (format!("{name}.{member}"), own),
                None => (name.to_owned(), attribute.name.as_str()),
            };
            match values::value(attribute) {
                Ok(value) => lines.push(attribute_line(&of, own, &value)),
                Err(why) => self.left_out.push(left_out(&attribute.name, path, &why)),
            }
        }
        lines
    }

    /// Adds a dataset, or notes why it is left out.
    fn dataset(&mut self, dataset: &Dataset, path: &[String]) -> Result<(), String> {
        if let Some(name) = path.last().filter(|_| scales::is_scale(dataset)) {
            self.scales.insert(dataset.address(), name.clone());
            self.dimension_ids.extend(scales::dimension_id(dataset).map(|id| (id, dataset.address())));
        }
        let marked = dataset.attribute("NAME").and_then(|name| name.read_string());
        if marked.is_ok_and(|name| name.starts_with(VALUELESS_DIMENSION_NAME)) {
            return Ok(());
        }
        if !self.seen.insert(dataset.address()) {
            return Err("another name of a dataset that is in the declaration".to_owned());
        }
        if dataset.num_elements().map_err(|error| error.to_string())? == 0 {
            return Err("it has no elements".to_owned());
        }
        let mut order = Order::default();
        let kind = kind(dataset.dtype(), &mut order)?;
        let name = self.names.of(path);
        let kind = format!("{}{kind}", lengths(dataset.shape()));
        let (scales, dimension_ids) = (scales::of_dimensions(dataset), scales::dimension_ids(dataset));
        let described = self.described(dataset, &name, path);
        let (path, dimensions) = (show_path(path), Vec::new());
        self.variables.push(Variable { name, path, kind, big: order.0, scales, dimension_ids, dimensions, described });
        Ok(())
    }
}

fn show_path(path: &[String]) -> String {
    format!("/{}", path.join("/"))
}

fn left_out(attribute: &str, path: &[String], why: &str) -> String {
    format!("the attribute {attribute} of {}: {why}", show_path(path))
}

fn declaration(attributes: &[String], variables: &[Variable]) -> String {
    let mut text = "// The datasets of an HDF5 file; a / in a path is a _ here.\ndataset {\n".to_owned();
    attributes.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    for Variable { name, kind, described, .. } in variables {
        text.push_str(&format!("    var {name} {kind}\n"));
        described.iter().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    text.push_str("}\n");
    let both = [false, true].map(|big| variables.iter().any(|variable| variable.big == Some(big)));
    let views: &[(&str, &str, Option<bool>)] = match both {
        [true, true] => &[("little_endian", "", Some(false)), ("big_endian", " big", Some(true))],
        [false, true] => &[("file", " big", None)],
        _ => &[("file", "", None)],
    };
    for (view, flag, order) in views {
        text.push_str(&format!("\nview {view} packed{flag} {{\n"));
        let is_shown = |variable: &&Variable| order.is_none_or(|order| variable.big.unwrap_or(false) == order);
        variables.iter().filter(is_shown).for_each(|Variable { name, dimensions, .. }| {
            text.push_str(&format!("    {}\n", shown(name, dimensions)));
        });
        text.push_str("}\n");
    }
    text
}
