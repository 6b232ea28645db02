//! Writes objects to files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use terrace::files::Owner;
use terrace::sparse::{SparseReader, SparseWriter, WriteHoles};
use terrace::{Kind, Object, Store};

use super::check::same_bytes;
use super::get_options::Get;
use super::out_folder::OutFolder;
use super::restore::{NotRestored, has_mode_and_time};
use super::special::{write_directory, write_link};
use crate::at_once::map_at_once;
use crate::errors::{describe, io_kind};
use crate::interrupt::TemporaryFile;
use crate::output::{complain, name, path_name};
use crate::range::bounds;

/// The number of files that are written at the same time. With more, the buffers of each cost more than is won.
const GET_THREADS: usize = 4;

/// An object and its destination file.
pub struct Wanted {
    pub key: Vec<u8>,
    pub object: Object,
    pub path: PathBuf,
    /// Whether the user named the object, instead of a prefix above it.
    pub named: bool,
}

/// The outcome of one object.
pub enum Got {
    Unchanged,
    WouldWrite,
    Bytes(u64),
    /// It was complained of.
    Failed,
    /// It was not tried.
    Left,
}

/// Writes objects to files.
pub struct Getter<'a> {
    pub store: &'a Store,
    pub get: &'a Get,
    /// The owner of objects without a recorded owner.
    pub owner: Owner,
    pub folder: OutFolder,
    pub bar: &'a ProgressBar,
    pub not_restored: &'a NotRestored,
}

impl Getter<'_> {
    /// Gets objects: files by several threads, then links and directories one after the other. Stops once nothing more can be written.
    pub fn get_all(&self, wanted: &[Wanted]) -> Vec<Got> {
        let ends = AtomicBool::new(false);
        let get = |wanted: &Wanted| {
            // Relaxed: an object too many does no harm.
            if ends.load(Ordering::Relaxed) {
                return Got::Left;
            }
            self.bar.set_message(name(&wanted.key));
            self.get_one(wanted).unwrap_or_else(|error| {
                self.bar.suspend(|| complain(&describe(&error)));
                let is_useless =
                    matches!(io_kind(&error), Some(io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem));
                if is_useless && !ends.swap(true, Ordering::Relaxed) {
                    complain("the rest is not tried");
                }
                Got::Failed
            })
        };
        let files = wanted.partition_point(|wanted| wanted.object.attributes.kind == Kind::File);
        let (files, others) = wanted.split_at(files);
        let mut got = map_at_once(GET_THREADS, files, get);
        got.extend(others.iter().map(get));
        got
    }

    fn get_one(&self, wanted: &Wanted) -> Result<Got> {
        if !wanted.named && self.is_unchanged(wanted)? {
            self.bar.inc(wanted.object.length);
            return Ok(Got::Unchanged);
        }
        if self.get.dry_run {
            return Ok(Got::WouldWrite);
        }
        tracing::info!(path = path_name(&wanted.path), "writing");
        let context = || format!("writing {}", path_name(&wanted.path));
        let is_directory = wanted.object.attributes.kind == Kind::Directory;
        self.folder.check_place(&wanted.path, wanted.named, is_directory).with_context(context)?;
        self.write(wanted).map(Got::Bytes).with_context(context)
    }

    /// Whether the file is up to date: by size and time, or by its bytes.
    fn is_unchanged(&self, wanted: &Wanted) -> Result<bool> {
        let Wanted { key, object, path, .. } = wanted;
        let (store, get) = (self.store, self.get);
        let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(false) };
        let same_kind = match object.attributes.kind {
            Kind::File => metadata.is_file() && metadata.len() == object.length,
            Kind::Directory => metadata.is_dir(),
            Kind::Symlink => false,
        };
        if !same_kind {
            return Ok(false);
        }
        if get.checksum && metadata.is_file() {
            return same_bytes(store, key, SparseReader::new(File::open(path)?, metadata.len()));
        }
        Ok(has_mode_and_time(&metadata, &object.attributes, self.owner)?)
    }

    /// Writes one object to a temporary file and renames it, so that no file is ever partly written. Returns the number of bytes.
    fn write(&self, wanted: &Wanted) -> Result<u64> {
        let (store, owner) = (self.store, self.owner);
        let Wanted { key, object: Object { attributes, .. }, path, .. } = wanted;
        if attributes.kind == Kind::Directory {
            write_directory(path, attributes, owner, self.not_restored)?;
            return Ok(0);
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        if attributes.kind == Kind::Symlink {
            return write_link(store, key, path, attributes, owner, self.not_restored);
        }
        let (beside, file) =
            TemporaryFile::make(path, |beside| File::options().write(true).create_new(true).mode(0o600).open(beside))?;
        let (start, end) = bounds(self.get.range.as_ref());
        let mut sparse = ProgressWriter { to: SparseWriter::new(&file), bar: self.bar };
        let length = store.get_sparse(key, start, end, &mut sparse)?;
        sparse.to.finish()?;
        self.not_restored.owner(beside.path(), attributes, owner)?;
        self.not_restored.mode_and_time(&file, attributes, owner)?;
        beside.into_place(path)?;
        Ok(length)
    }
}

/// A file writer that advances a progress bar.
struct ProgressWriter<'a> {
    to: SparseWriter<'a>,
    bar: &'a ProgressBar,
}

impl Write for ProgressWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bar.inc(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl WriteHoles for ProgressWriter<'_> {
    fn skip_hole(&mut self, length: u64) -> io::Result<()> {
        self.bar.inc(length);
        self.to.skip_hole(length)
    }
}
