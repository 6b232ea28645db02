//! Files and directories to be stored or compared, and the keys that they have.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow};
use terrace::config::TierKind;
use terrace::{Attributes, Store};
use walkdir::WalkDir;

use crate::arguments::Filter;

/// A file to be stored, and its key.
pub struct Item {
    pub path: PathBuf,
    pub key: Vec<u8>,
    pub metadata: fs::Metadata,
}

/// What a source holds.
pub struct Tree {
    pub items: Vec<Item>,
    /// What could not be looked at.
    pub failed: Vec<Error>,
    /// What is left out, and why.
    pub skipped: Vec<(PathBuf, &'static str)>,
}

impl Tree {
    /// The files of `source` with the keys that they get: a directory's contents, as rclone does.
    pub fn of(store: &Store, source: &Path, dest: &[u8], filter: &Filter) -> Result<Tree> {
        let mut tree = Tree { items: Vec::new(), failed: Vec::new(), skipped: Vec::new() };
        let metadata = fs::metadata(source).with_context(|| format!("reading {}", source.display()))?;
        if !metadata.is_dir() {
            let mut key = dest.to_vec();
            if key.is_empty() || key.ends_with(b"/") {
                let name = source.file_name().with_context(|| format!("{} has no name", source.display()))?;
                key.extend_from_slice(name.as_bytes());
            }
            tree.items.push(Item { path: source.to_owned(), key, metadata });
            return Ok(tree);
        }
        let mut prefix = dest.strip_suffix(b"/").unwrap_or(dest).to_vec();
        if !prefix.is_empty() {
            terrace::key::check(&prefix)?;
            prefix.push(b'/');
        }
        let own = own_folders(store);
        let mut entries = WalkDir::new(source).min_depth(1).sort_by_file_name().into_iter();
        while let Some(entry) = entries.next() {
            if let Ok(entry) = &entry
                && entry.file_type().is_dir()
                && fs::canonicalize(entry.path()).is_ok_and(|path| own.contains(&path))
            {
                tree.skipped.push((entry.path().to_owned(), "it is a part of the store itself"));
                entries.skip_current_dir();
                continue;
            }
            if let Err(e) = tree.add(entry, source, &prefix, filter) {
                tree.failed.push(e);
            }
        }
        Ok(tree)
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
            cause.context(format!("reading {}", path.display()))
        })?;
        let below = entry.path().strip_prefix(source).unwrap_or(entry.path());
        if !filter.passes(below) {
            return Ok(());
        }
        let metadata = entry.metadata().with_context(|| format!("reading {}", entry.path().display()))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            // Others are there through what is in them. One that cannot be read is told of when it is walked.
            if !fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none()) {
                return Ok(());
            }
        } else if !kind.is_file() && !kind.is_symlink() {
            self.skipped.push((entry.into_path(), "it is a pipe, a socket or a device"));
            return Ok(());
        }
        let key = [prefix, below.as_os_str().as_bytes()].concat();
        self.items.push(Item { path: entry.into_path(), key, metadata });
        Ok(())
    }
}

/// The store's directory and its targets.
fn own_folders(store: &Store) -> Vec<PathBuf> {
    let tiers = store.config().tiers.iter().filter(|tier| tier.kind == TierKind::Directory);
    let targets = tiers.flat_map(|tier| &tier.targets).map(|target| target.path.as_path());
    targets.chain([store.dir()]).filter_map(|path| fs::canonicalize(path).ok()).collect()
}

impl Item {
    /// What the store is to know about it.
    pub fn attributes(&self) -> Attributes {
        Attributes::of(&self.metadata)
    }

    /// Its bytes; of a link, where it leads.
    pub fn open(&self) -> Result<Box<dyn Read>> {
        self.source().with_context(|| format!("reading {}", self.path.display()))
    }

    fn source(&self) -> io::Result<Box<dyn Read>> {
        let kind = self.metadata.file_type();
        if kind.is_symlink() {
            return Ok(Box::new(io::Cursor::new(fs::read_link(&self.path)?.into_os_string().into_vec())));
        }
        if kind.is_dir() {
            return Ok(Box::new(io::empty()));
        }
        let file = File::open(&self.path)?;
        if kind.is_fifo() || kind.is_char_device() {
            return Ok(Box::new(file));
        }
        let before = state(&file.metadata()?);
        // Some files of the system say that they are empty, and are not.
        let left = if before.0 == 0 { u64::MAX } else { before.0 };
        Ok(Box::new(Steady { file: file.take(left), before }))
    }
}

/// A file's bytes, as long as nobody changes it: what is read of a file that changes is no state that it ever had. Of
/// one that grows as quickly as it is read there is an end, too.
struct Steady {
    file: io::Take<File>,
    before: (u64, i64, i64),
}

impl Read for Steady {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        if read == 0 && !out.is_empty() && state(&self.file.get_ref().metadata()?) != self.before {
            return Err(io::Error::other("the file changed while it was read; put it again when it is at rest"));
        }
        Ok(read)
    }
}

fn state(metadata: &fs::Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}
