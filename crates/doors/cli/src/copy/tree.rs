//! The files and directories to store or compare, with their keys.

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, ensure};
use terrace::files::{DIRECTORY_MODE, Owner};
use terrace::{Attributes, Store};
use walkdir::WalkDir;

use super::filter::Filter;
use crate::output::path_name;

/// A file to store, and its key.
pub struct Item {
    pub path: PathBuf,
    pub key: Vec<u8>,
    pub metadata: fs::Metadata,
    /// The attributes to store.
    pub attributes: Attributes,
}

/// The content of a source.
pub struct Tree {
    pub items: Vec<Item>,
    /// Entries that could not be read.
    pub failed: Vec<Error>,
    /// Skipped entries, with the reasons.
    pub skipped: Vec<(PathBuf, Skipped)>,
    /// The owner of files without a recorded owner: the store's owner.
    owner: Owner,
}

/// The reason for which an entry is skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    OwnFolder,
    /// Its bytes may have no end.
    NoBytes,
}

impl fmt::Display for Skipped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Skipped::OwnFolder => "it is a part of the store itself",
            Skipped::NoBytes => "it is a pipe, a socket or a device",
        })
    }
}

impl Tree {
    /// Lists the files of `source` with their keys: a directory's contents, as rclone does. Includes a directory only if it is empty, or
    /// if its mode or owner cannot be restored from keys alone. The time of any other directory is lost: to keep it, the directory would have to
    /// be an object, which each listing and each count of objects would show.
    pub fn of(store: &Store, source: &Path, dest: &[u8], filter: &Filter) -> Result<Tree> {
        let mut tree = Tree::empty(store)?;
        let metadata = fs::metadata(source).with_context(|| format!("reading {}", path_name(source)))?;
        if !metadata.is_dir() {
            let mut key = dest.to_vec();
            if key.is_empty() || key.ends_with(b"/") {
                let name = source.file_name().with_context(|| format!("{} has no name", path_name(source)))?;
                key.extend_from_slice(name.as_bytes());
            }
            tree.push(source.to_owned(), key, metadata);
            return Ok(tree);
        }
        // A removed directory looks empty, so storing it would seem to succeed.
        ensure!(metadata.nlink() > 0, "{}: this directory was removed; go to another one", path_name(source));
        let mut prefix = dest.strip_suffix(b"/").unwrap_or(dest).to_vec();
        if !prefix.is_empty() {
            terrace::key::check(&prefix)?;
            if !tree.is_usual(&metadata) {
                tree.push(source.to_owned(), prefix.clone(), metadata);
            }
            prefix.push(b'/');
        }
        let own = own_folders(store);
        let mut entries = WalkDir::new(source).min_depth(1).sort_by_file_name().into_iter();
        while let Some(entry) = entries.next() {
            if let Ok(entry) = &entry
                && entry.file_type().is_dir()
                && fs::canonicalize(entry.path()).is_ok_and(|path| own.contains(&path))
            {
                tree.skipped.push((entry.path().to_owned(), Skipped::OwnFolder));
                entries.skip_current_dir();
                continue;
            }
            if let Err(e) = tree.add(entry, source, &prefix, filter) {
                tree.failed.push(e);
            }
        }
        Ok(tree)
    }

    /// Lists only `source`, which is a symbolic link or an empty directory. Does not follow the link.
    pub fn of_itself(store: &Store, source: &Path, key: &[u8]) -> Result<Tree> {
        let mut tree = Tree::empty(store)?;
        let metadata = fs::symlink_metadata(source).with_context(|| format!("reading {}", path_name(source)))?;
        tree.push(source.to_owned(), key.to_vec(), metadata);
        Ok(tree)
    }

    fn empty(store: &Store) -> Result<Tree> {
        let (items, failed, skipped) = Default::default();
        Ok(Tree { items, failed, skipped, owner: store.owner()? })
    }

    fn add(
        &mut self,
        entry: walkdir::Result<walkdir::DirEntry>,
        source: &Path,
        prefix: &[u8],
        filter: &Filter,
    ) -> Result<()> {
        let entry = entry.map_err(|e| {
            let path = e.path().unwrap_or(source).to_owned();
            let cause = e.into_io_error().map_or_else(|| anyhow!("it is its own parent"), Error::from);
            cause.context(format!("reading {}", path_name(&path)))
        })?;
        let below = entry.path().strip_prefix(source).unwrap_or(entry.path());
        if !filter.passes(below) {
            return Ok(());
        }
        let metadata = entry.metadata().with_context(|| format!("reading {}", path_name(entry.path())))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            // Other directories exist implicitly through their contents. An unreadable one is reported during the walk.
            let empty = fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none());
            if !empty && self.is_usual(&metadata) {
                return Ok(());
            }
        } else if !kind.is_file() && !kind.is_symlink() {
            self.skipped.push((entry.into_path(), Skipped::NoBytes));
            return Ok(());
        }
        let key = [prefix, below.as_os_str().as_bytes()].concat();
        self.push(entry.into_path(), key, metadata);
        Ok(())
    }

    fn push(&mut self, path: PathBuf, key: Vec<u8>, metadata: fs::Metadata) {
        let mut attributes = Attributes::of(&metadata);
        Owner::of(&metadata).keep(&mut attributes, self.owner);
        self.items.push(Item { path, key, metadata, attributes });
    }

    /// Whether a directory has the mode and owner of one that exists only as a part of keys.
    fn is_usual(&self, metadata: &fs::Metadata) -> bool {
        metadata.mode() & 0o7777 == DIRECTORY_MODE && Owner::of(metadata) == self.owner
    }
}

/// Checks that a source of objects is no part of the store.
pub fn check_not_own(store: &Store, source: &Path) -> Result<()> {
    // One that is not there is reported when it is read.
    let is_own = fs::canonicalize(source).is_ok_and(|real| own_folders(store).iter().any(|own| real.starts_with(own)));
    ensure!(!is_own, "{} is a part of the store itself; name a directory outside of it", path_name(source));
    Ok(())
}

/// Returns the store's directory and its targets.
fn own_folders(store: &Store) -> Vec<PathBuf> {
    let tiers = store.config().tiers.iter().filter(|tier| tier.kind.capabilities().local_path);
    let targets = tiers.flat_map(|tier| &tier.targets).map(|target| target.path.as_path());
    targets.chain([store.dir()]).filter_map(|path| fs::canonicalize(path).ok()).collect()
}
