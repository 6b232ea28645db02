//! Inputs in a directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use terrace::Store;

use super::{Input, InputPlace};
use crate::arguments::Filter;
use crate::copy::{Changes, Item, Tree};
use crate::output::{note, path_name};

pub struct InputFolder(PathBuf);

impl InputFolder {
    pub fn new(path: &Path) -> Result<InputFolder> {
        let found = fs::metadata(path).with_context(|| format!("reading {}", path_name(path)))?;
        if !found.is_dir() {
            bail!("{} is no directory; name the one in which the inputs are", path_name(path));
        }
        Ok(InputFolder(path.to_owned()))
    }
}

impl InputPlace for InputFolder {
    fn find(&self, store: &Store, name: Option<&[u8]>) -> Result<Vec<Input<'_>>> {
        let path = name.map_or_else(|| self.0.clone(), |name| self.0.join(OsStr::from_bytes(name)));
        let tree = Tree::of(store, &path, name.unwrap_or_default(), &Filter::default())?;
        if let Some(error) = tree.failed.into_iter().next() {
            return Err(error);
        }
        for (path, why) in &tree.skipped {
            note(&format!("{}: skipped, since {why}", path_name(path)));
        }
        let input = |item: Item| Input {
            key: item.key.clone(),
            attributes: item.attributes.clone(),
            // A symbolic link has the bytes of its path.
            length: if item.metadata.is_dir() { 0 } else { item.metadata.len() },
            open: Box::new(move || item.open(Changes::Refused)),
        };
        Ok(tree.items.into_iter().map(input).collect())
    }
}
