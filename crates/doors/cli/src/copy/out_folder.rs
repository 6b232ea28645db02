//! A folder that objects are written into.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use terrace::{OwnPlaces, Store, real_path};

use crate::output::path_name;

/// A folder that objects are written into.
pub struct OutFolder {
    path: PathBuf,
    /// The folder without symbolic links.
    real: PathBuf,
    own: OwnPlaces,
}

impl OutFolder {
    pub fn new(store: &Store, path: &Path) -> OutFolder {
        OutFolder { path: path.to_owned(), real: real_path(path), own: OwnPlaces::of(store) }
    }

    /// Checks that the folder is no store's own.
    pub fn check(&self) -> Result<()> {
        Ok(self.own.check(&self.real)?)
    }

    /// Returns a symbolic link on the way from the folder to the one in which a file lies, or to a folder.
    pub fn find_link<'a>(&self, path: &'a Path, is_directory: bool) -> Option<&'a Path> {
        let below = path.ancestors().skip(usize::from(!is_directory)).take_while(|folder| **folder != self.path);
        below.into_iter().find(|folder| folder.is_symlink())
    }

    /// Checks that what is at a path may be replaced, and that it is not among the store's own files. With `named`, the path is the user's own,
    /// and links on the way are followed; otherwise none may lead out of the folder.
    pub fn check_place(&self, path: &Path, named: bool, is_directory: bool) -> Result<()> {
        let is_special = |found: Metadata| !found.is_file() && !found.is_dir() && !found.is_symlink();
        let found = if named { fs::metadata(path) } else { fs::symlink_metadata(path) };
        if found.is_ok_and(is_special) {
            bail!(
                "it is a device, a pipe or a socket, which is not replaced; name a file, or `-` for the standard output"
            );
        }
        self.own.check_below(&self.real.join(path.strip_prefix(&self.path).unwrap_or(path)), &self.real)?;
        match self.find_link(path, is_directory).filter(|_| !named) {
            Some(link) => {
                let link = path_name(link);
                bail!("{link} is a symbolic link, and is not followed; remove it, or name another destination")
            }
            None => Ok(()),
        }
    }
}
