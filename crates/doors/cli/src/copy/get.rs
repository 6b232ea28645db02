//! Copies stored objects to files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, StdoutLock, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Error, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use terrace::files::Owner;
use terrace::sparse::{SparseReader, SparseWriter, WriteHoles};
use terrace::{Kind, Object, Store};

use super::check::same_bytes;
use super::file_number::{FileNumber, SAME_NAME, find_alike, find_shared, is_listed};
use super::filter::Filter;
use super::out_folder::OutFolder;
use super::restore::{NotRestored, has_mode_and_time};
use super::special::{write_directory, write_link};
use super::{replaced_words, tell_repaired};
use crate::at_once::map_at_once;
use crate::errors::{describe, io_kind};
use crate::inspect::each;
use crate::interrupt::TemporaryFile;
use crate::output::{Show, complain, count, name, path_name, size};
use crate::range::{Range, bounds, parse_range};

/// The number of files that are written at the same time. With more, the buffers of each cost more than is won.
const GET_THREADS: usize = 4;

#[derive(Args)]
pub struct Get {
    /// A key, or the prefix of many keys.
    pub source: OsString,
    /// A file, a directory, or - for standard output.
    pub dest: PathBuf,
    /// Copy bytes A to B of one object; B itself is left out.
    #[arg(long, value_name = "A-B", value_parser = parse_range)]
    pub range: Option<Range>,
    /// Skip files by content instead of size and time.
    #[arg(long)]
    pub checksum: bool,
    /// Print what would be written, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub filter: Filter,
}

pub fn cat(store: &Store, key: &OsStr, range: Option<&Range>) -> Result<bool> {
    if is_directory(store, key.as_bytes())? {
        bail!("{} is a directory; `terrace ls` lists what is in it", name(key.as_bytes()));
    }
    let (start, end) = bounds(range);
    // Locked once for the whole object instead of once for each block. Nothing else prints to stdout meanwhile.
    let mut pipe = Pipe { out: io::stdout().lock(), closed: false };
    let written = store.get_to(key.as_bytes(), start, end, &mut pipe);
    let written = written.map_err(Error::from).and_then(|_| pipe.flush().context("writing to stdout"));
    tell_repaired(store)?;
    if pipe.closed { Ok(true) } else { written.map(|()| true) }
}

/// Returns whether a key is that of a directory. One that holds files needs no object of its own.
fn is_directory(store: &Store, key: &[u8]) -> Result<bool> {
    match store.stat(key) {
        Ok(object) => Ok(object.attributes.kind == Kind::Directory),
        Err(terrace::Error::NotFound { .. }) => Ok(!store.list(key, None, 1)?.is_empty()),
        Err(error) => Err(error.into()),
    }
}

/// Stdout, and whether its reader has closed it, which is not an error.
struct Pipe {
    out: StdoutLock<'static>,
    closed: bool,
}

impl Pipe {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.closed |= done.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        done
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

/// An object and its destination file.
struct Wanted {
    key: Vec<u8>,
    object: Object,
    path: PathBuf,
    /// Whether the user named the object, instead of a prefix above it.
    named: bool,
}

pub fn get(store: &Store, get: &Get, show: Show) -> Result<bool> {
    let folder = OutFolder::new(store, &get.dest);
    if get.dest.as_os_str() != "-" {
        // Before the destination folder is made.
        folder.check().with_context(|| format!("writing {}", path_name(&get.dest)))?;
    }
    let wanted = list_wanted(store, get)?;
    if get.dest.as_os_str() == "-" && !get.dry_run {
        return cat(store, &get.source, get.range.as_ref());
    }
    let bar = show.bar(wanted.iter().map(|w| w.object.length).sum());
    let not_restored = NotRestored::default();
    let getter = Getter { store, get, owner: store.owner()?, folder, bar: &bar, not_restored: &not_restored };
    if !get.dry_run {
        make_private(&wanted, &getter.folder)?;
    }
    let (mut read, mut unchanged, mut failed, mut bytes) = (0, 0, 0, 0);
    let mut would_write = Vec::new();
    for (wanted, got) in wanted.iter().zip(getter.get_all(&wanted)) {
        match got {
            Got::Unchanged => unchanged += 1,
            Got::WouldWrite => would_write.push(wanted.path.as_path()),
            Got::Bytes(length) => {
                read += 1;
                bytes += length;
            }
            Got::Failed => failed += 1,
            Got::Left => {}
        }
    }
    bar.finish_and_clear();
    failed += complain_of_shared(&wanted, &get.dest);
    let replaced = store.repair_suspects()?;
    if get.dry_run {
        for path in &would_write {
            show.line(&format!("would write {}", path_name(path)))?;
        }
        let words = format!("{} to write, {unchanged} unchanged", count(would_write.len() as u64, "file"));
        let would_write: Vec<String> = would_write.iter().map(|path| path.display().to_string()).collect();
        show.result(&json!({"would_write": would_write, "unchanged": unchanged, "failed": failed}), &words)?;
        return Ok(failed == 0);
    }
    let value = json!({
        "read": read, "unchanged": unchanged, "bytes": bytes, "failed": failed, "repaired": replaced.damaged, "changed": replaced.changed,
        "owners_not_restored": not_restored.owners(), "modes_not_restored": not_restored.modes(),
    });
    let read = count(read, "object");
    show.result(&value, &format!("{read} read ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
    if let Some(words) = not_restored.words() {
        show.line(&words)?;
    }
    replaced_words(replaced).iter().try_for_each(|words| show.line(words))?;
    Ok(failed == 0)
}

/// Complains of objects whose paths lead to the same file: only one of them is there. Returns the number of the others.
fn complain_of_shared(wanted: &[Wanted], folder: &Path) -> u64 {
    let alike = find_alike(wanted.iter().map(|wanted| wanted.key.as_slice()));
    let is_alike = |number: &usize| alike.binary_search(number).is_ok();
    // Characters that are not ASCII's may be written in several ways. The files of all others are not looked at once more.
    let suspects = wanted.iter().enumerate().filter(|(number, wanted)| is_alike(number) || !wanted.key.is_ascii());
    let suspects: Vec<(usize, &Wanted)> = suspects.collect();
    let found = suspects.iter().map(|(_, wanted)| fs::symlink_metadata(&wanted.path).ok());
    let shared = find_shared(found.map(|found| found.map(|found| FileNumber::of(&found))));
    for places in &shared {
        let keys: Vec<String> = places.iter().filter_map(|place| Some(name(&suspects.get(*place)?.1.key))).collect();
        complain(&format!("{} are one file, {SAME_NAME}", keys.join(" and ")));
    }
    let mut failed = shared.iter().map(|places| places.len() as u64 - 1).sum();
    for (place, (number, wanted)) in suspects.iter().enumerate() {
        let is_told = || shared.iter().any(|places| places.contains(&place));
        if is_alike(number) && !is_told() && wanted.path.exists() && !is_listed(folder, &wanted.path) {
            complain(&format!("{} is not there, {SAME_NAME}", name(&wanted.key)));
            failed += 1;
        }
    }
    failed
}

/// Returns the named object, or all objects below the prefix.
fn list_wanted(store: &Store, get: &Get) -> Result<Vec<Wanted>> {
    let key = get.source.as_bytes();
    match store.stat(key) {
        Ok(object) if object.attributes.kind != Kind::Directory => {
            let into = get.dest.is_dir() || get.dest.as_os_str().as_bytes().ends_with(b"/");
            let name = key.rsplit(|&b| b == b'/').next().unwrap_or(key);
            let path = if into { get.dest.join(OsStr::from_bytes(name)) } else { get.dest.clone() };
            return Ok(vec![Wanted { key: key.to_vec(), object, path, named: true }]);
        }
        Ok(_) | Err(terrace::Error::NotFound { .. } | terrace::Error::BadKey { .. }) => {}
        Err(e) => return Err(e.into()),
    }
    if get.range.is_some() || get.dest.as_os_str() == "-" {
        bail!("{:?} is no object's key, which --range and - need; `terrace ls` lists those that exist", get.source);
    }
    let prefix = key.strip_suffix(b"/").unwrap_or(key);
    let (mut found, mut any) = (Vec::new(), false);
    each(store, prefix, |key, object| {
        let rest = key.strip_prefix(prefix).unwrap_or(key);
        let below = Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)));
        any = true;
        if get.filter.passes(below) {
            let path = get.dest.join(below);
            found.push(Wanted { key: key.to_vec(), object: object.clone(), path, named: false });
        }
        Ok(())
    })?;
    if !any {
        bail!("nothing is stored at or below {:?}; `terrace ls` lists what is", get.source);
    }
    // Files first, by several threads: none is to follow a link that another object writes. Directories last, children before parents: later
    // writes into a directory would change its time, and its mode may forbid them.
    found.sort_by(|a, b| match (a.object.attributes.kind, b.object.attributes.kind) {
        (Kind::Directory, Kind::Directory) => b.key.cmp(&a.key),
        (a, b) => place_in_order(a).cmp(&place_in_order(b)),
    });
    if !get.dry_run {
        // Create it here, so that a failure is reported only once.
        fs::create_dir_all(&get.dest).with_context(|| format!("making {}", path_name(&get.dest)))?;
    }
    Ok(found)
}

/// Returns when objects of a kind are written.
fn place_in_order(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Symlink => 1,
        Kind::Directory => 2,
    }
}

/// The outcome of one object.
enum Got {
    Unchanged,
    WouldWrite,
    Bytes(u64),
    /// It was complained of.
    Failed,
    /// It was not tried.
    Left,
}

/// Creates the directories with access for this user only, until they are filled and get their own modes.
fn make_private(wanted: &[Wanted], folder: &OutFolder) -> Result<()> {
    // Parents come last in the order, so iterate backwards.
    let directories = wanted.iter().rev().filter(|w| !w.named && w.object.attributes.kind == Kind::Directory);
    // Those behind a link are reported when they are handled.
    for Wanted { path, .. } in directories.filter(|w| folder.find_link(&w.path, true).is_none()) {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("making {}", path_name(parent)))?;
        }
        // An error is ignored here: it is reported when the directory itself is handled.
        let _ = DirBuilder::new().mode(0o700).create(path);
    }
    Ok(())
}

/// Writes objects to files.
struct Getter<'a> {
    store: &'a Store,
    get: &'a Get,
    /// The owner of objects without a recorded owner.
    owner: Owner,
    folder: OutFolder,
    bar: &'a ProgressBar,
    not_restored: &'a NotRestored,
}

impl Getter<'_> {
    /// Gets objects: files by several threads, then links and directories one after the other. Stops once nothing more can be written.
    fn get_all(&self, wanted: &[Wanted]) -> Vec<Got> {
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
