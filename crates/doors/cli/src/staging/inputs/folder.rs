//! Inputs in a directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use terrace::{OwnPlaces, Store};

use super::{Input, InputPlace, check_finished, checked, note_unfinished};
use crate::copy::Filter;
use crate::copy::{FileChanges, Item, Skipped, Tree};
use crate::output::{note, path_name};
use crate::staging::unfinished::is_unfinished;

pub struct InputFolder(PathBuf);

impl InputFolder {
    pub fn new(store: &Store, path: &Path) -> Result<InputFolder> {
        let own = OwnPlaces::of(store).check(path);
        own.with_context(|| format!("reading {}", path_name(path)))?;
        let found = fs::metadata(path).with_context(|| format!("reading {}", path_name(path)))?;
        if !found.is_dir() {
            bail!("{} is no directory; name the one in which the inputs are", path_name(path));
        }
        Ok(InputFolder(path.to_owned()))
    }
}

impl InputFolder {
    /// Lists what has a name. As within a folder, a symbolic link is an input itself, and is not followed.
    fn find_named(&self, store: &Store, name: &[u8]) -> Result<Tree> {
        let path = self.0.join(OsStr::from_bytes(name));
        check_finished(name).with_context(|| format!("reading {}", path_name(&path)))?;
        let above = path.ancestors().skip(1).take_while(|folder| *folder != self.0);
        if let Some(link) = above.into_iter().find(|folder| folder.is_symlink()) {
            let link = path_name(link);
            bail!("reading {}: {link} is a symbolic link, and is not followed; name what it leads to", path_name(&path))
        }
        let kind = fs::symlink_metadata(&path).with_context(|| format!("reading {}", path_name(&path)))?.file_type();
        if kind.is_symlink() {
            return Tree::of_itself(store, &path, name);
        }
        // A pipe may have no end, and nobody who writes into it.
        if !kind.is_dir() && !kind.is_file() {
            bail!("reading {}: it is no file, directory or symbolic link; leave it out", path_name(&path))
        }
        // Nothing in it would be an input: without a list, the folder itself is.
        let is_empty = kind.is_dir() && fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
        match is_empty {
            true => Tree::of_itself(store, &path, name),
            false => Tree::of(store, &path, name, &Filter::default()),
        }
    }
}

impl InputPlace for InputFolder {
    fn find(&self, store: &Store, wanted: Option<&[u8]>) -> Vec<Result<Input<'_>>> {
        let tree = match wanted {
            Some(name) => self.find_named(store, name),
            None => Tree::of(store, &self.0, b"", &Filter::default()),
        };
        let tree = match tree {
            Ok(tree) => tree,
            Err(error) => return vec![Err(error)],
        };
        let mut failed = tree.failed;
        for (path, why) in &tree.skipped {
            match why {
                Skipped::OwnFolder => note(&format!("{}: skipped, since {why}", path_name(path))),
                Skipped::NoBytes => {
                    failed.push(anyhow!("reading {}: {why}, and is no input; name what is beside it", path_name(path)));
                }
            }
        }
        let (unfinished, items): (Vec<Item>, _) = tree.items.into_iter().partition(|item| is_unfinished(&item.key));
        unfinished.iter().for_each(|item| note_unfinished(&item.key));
        let input = |item: Item| Input {
            key: item.key.clone(),
            attributes: item.attributes.clone(),
            // A symbolic link has the bytes of its path.
            length: if item.metadata.is_dir() { 0 } else { item.metadata.len() },
            open: Box::new(move || item.open(FileChanges::Refused)),
        };
        failed.into_iter().map(Err).chain(items.into_iter().map(input).map(checked)).collect()
    }
}
