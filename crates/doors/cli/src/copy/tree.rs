//! The files and directories to store or compare, with their keys.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, ensure};
use terrace::files::{DIRECTORY_MODE, Owner};
use terrace::sparse::{Dense, ReadHoles, SparseReader};
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

/// Returns the store's directory and its targets.
pub(super) fn own_folders(store: &Store) -> Vec<PathBuf> {
    let tiers = store.config().tiers.iter().filter(|tier| tier.kind.capabilities().local_path);
    let targets = tiers.flat_map(|tier| &tier.targets).map(|target| target.path.as_path());
    targets.chain([store.dir()]).filter_map(|path| fs::canonicalize(path).ok()).collect()
}

impl Item {
    /// Opens what is stored for the item: the bytes and holes of a file, or the path that a link leads to.
    pub fn open(&self, changes: Changes) -> Result<Box<dyn ReadHoles>> {
        self.read(changes).with_context(|| format!("reading {}", path_name(&self.path)))
    }

    fn read(&self, changes: Changes) -> io::Result<Box<dyn ReadHoles>> {
        let kind = self.metadata.file_type();
        if kind.is_symlink() {
            return Ok(Box::new(Dense(io::Cursor::new(fs::read_link(&self.path)?.into_os_string().into_vec()))));
        }
        if kind.is_dir() {
            return Ok(Box::new(Dense(io::empty())));
        }
        let file = File::open(&self.path)?;
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(Box::new(Dense(file)));
        }
        let before = length_and_time(&file.metadata()?);
        // Some system files report a size of zero but have content.
        let end = if before.0 == 0 { u64::MAX } else { before.0 };
        Ok(Box::new(ChangeCheckingReader { file: SparseReader::new(file, end), before, changes }))
    }
}

/// The handling of files that change while they are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// Fail.
    Refused,
    /// Read up to the length that the file had when it was opened.
    Allowed,
}

/// A reader that fails if the file changes meanwhile, because the bytes would mix several states of it. `changes` says which changes are allowed.
/// It stops at the initial length, so that it also reaches the end of a file that grows as fast as it is read.
struct ChangeCheckingReader {
    file: SparseReader,
    before: (u64, i64, i64),
    changes: Changes,
}

impl Read for ChangeCheckingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        if read > 0 || out.is_empty() {
            return Ok(read);
        }
        let now = length_and_time(&self.file.file().metadata()?);
        let wrong = match self.changes {
            Changes::Refused if now != self.before => {
                "the file changed while it was read; put it again when nobody writes to it, or use --snapshot, which stores it up to its length at the start"
            }
            Changes::Allowed if now.0 < self.before.0 => "the file became shorter while it was read; put it again",
            _ => return Ok(0),
        };
        Err(io::Error::other(wrong))
    }
}

impl ReadHoles for ChangeCheckingReader {
    fn pass_hole(&mut self) -> io::Result<u64> {
        self.file.pass_hole()
    }
}

fn length_and_time(metadata: &fs::Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}
