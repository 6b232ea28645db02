//! Groups of arrays: folders of folders.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::super::{Error, Format, Imported, MAX_METADATA_BYTES, Names, bad, shown, unsupported};
use super::{ARRAY_FILE_NAMES, Array, array, attributes, describe, own_attributes, parsed};

/// A folder with this file is a group of version 2.
const GROUP_FILE_NAME: &str = ".zgroup";
/// Limits on nesting and on the number of arrays; groups beyond them are refused.
const MAX_GROUP_DEPTH: usize = 64;
const MAX_ARRAYS: usize = 65_536;

/// Returns whether a folder is a group.
pub(in crate::import) fn is_group(folder: &Path) -> bool {
    let says = text(&folder.join(ARRAY_FILE_NAMES[0])).and_then(|text| parsed(&text).ok());
    folder.join(GROUP_FILE_NAME).is_file()
        || says.is_some_and(|json| json.get("node_type").is_some_and(|kind| kind == "group"))
}

/// Reads a metadata file, if it exists.
pub(super) fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_METADATA_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the declaration of a group: a variable and a view for each of its arrays.
pub(in crate::import) fn group(folder: &Path) -> Result<Imported, Error> {
    let mut found = Arrays::default();
    found.group(folder, &mut Vec::new())?;
    let Arrays { arrays, attributes, sources, mut left_out, .. } = found;
    if arrays.is_empty() {
        let why = left_out.first().map_or_else(String::new, |first| format!(": {first}"));
        return unsupported(format!("it holds no array that can be a variable{why}"));
    }
    let mut text = "// The arrays of a Zarr group; a / in a path is a _ here.\ndataset {\n".to_owned();
    let of_arrays = arrays.iter().flat_map(|(name, array)| array.lines(name, &mut left_out));
    attributes.into_iter().chain(of_arrays).for_each(|line| text.push_str(&format!("    {line}\n")));
    text.push_str("}\n");
    for (name, array) in &arrays {
        text.push_str(&format!("\nview {name}{} {{\n    {}\n}}\n", array.flags, shown(name, &array.dimensions)));
    }
    Ok(Imported { declaration: text, left_out, format: Format::Zarr, sources })
}

#[derive(Default)]
struct Arrays {
    arrays: Vec<(String, Array)>,
    /// The names of the arrays, and their paths in the group.
    sources: Vec<(String, String)>,
    names: Names,
    /// The lines with the attributes of groups.
    attributes: Vec<String>,
    left_out: Vec<String>,
}

impl Arrays {
    /// Adds the attributes of a group. The language has no groups, so all but the root's begin with the path.
    fn attributes_of(&mut self, folder: &Path, path: &[String]) {
        let metadata = text(&folder.join(ARRAY_FILE_NAMES[0])).and_then(|text| parsed(&text).ok()).unwrap_or_default();
        let own = own_attributes(&metadata, attributes(folder), &mut self.left_out);
        let prefix = path.iter().map(|name| format!("{name}/")).collect::<String>();
        let all = own.into_iter().map(|(key, value)| (format!("{prefix}{key}"), value)).collect();
        describe("", &all, None, |_| false, &mut self.attributes, &mut self.left_out);
    }

    fn group(&mut self, folder: &Path, path: &mut Vec<String>) -> Result<(), Error> {
        if path.len() > MAX_GROUP_DEPTH {
            return bad("its groups are nested deeper than 64");
        }
        self.attributes_of(folder, path);
        let mut inner: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        inner.sort_by_key(fs::DirEntry::file_name);
        // A symbolic link may lead back to a parent folder.
        for entry in inner.into_iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let folder = entry.path();
            path.push(entry.file_name().to_string_lossy().into_owned());
            if is_group(&folder) {
                self.group(&folder, path)?;
            } else if let Some(text) = ARRAY_FILE_NAMES.iter().find_map(|name| text(&folder.join(name))) {
                match parsed(&text).and_then(|json| array(&json, attributes(&folder), &mut self.left_out)) {
                    Ok(array) => {
                        let name = self.names.of(path);
                        self.sources.push((name.clone(), path.join("/")));
                        self.arrays.push((name, array));
                    }
                    Err(why) => self.left_out.push(format!("/{}: {why}", path.join("/"))),
                }
            }
            path.pop();
            if self.arrays.len() + self.left_out.len() > MAX_ARRAYS {
                return bad("it holds more than 65,536 arrays");
            }
        }
        Ok(())
    }
}
