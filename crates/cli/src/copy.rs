//! Copying between files and the store.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use terrace::{Attributes, Kind, Object, PutOptions, Store, key};
use walkdir::WalkDir;

use crate::arguments::{Ack, Filter, Get, Put, Range};
use crate::look::each;
use crate::output::{Show, size};

/// A file to be stored, and its key.
struct Item {
    path: PathBuf,
    key: Vec<u8>,
    metadata: fs::Metadata,
}

/// The files of `source` with the keys that they get: a directory's contents, as rclone does.
fn items(source: &Path, dest: &[u8], filter: &Filter) -> Result<Vec<Item>> {
    let metadata = fs::metadata(source).with_context(|| format!("reading {}", source.display()))?;
    if !metadata.is_dir() {
        let mut key = dest.to_vec();
        if key.is_empty() || key.ends_with(b"/") {
            key.extend_from_slice(
                source.file_name().with_context(|| format!("{} has no name", source.display()))?.as_bytes(),
            );
        }
        return Ok(vec![Item { path: source.to_owned(), key, metadata }]);
    }
    let prefix = dest.strip_suffix(b"/").unwrap_or(dest);
    let mut items = Vec::new();
    for entry in WalkDir::new(source).min_depth(1).sort_by_file_name() {
        let entry = entry.with_context(|| format!("listing {}", source.display()))?;
        let metadata = entry.metadata().with_context(|| format!("reading {}", entry.path().display()))?;
        let kind = metadata.file_type();
        let empty = || fs::read_dir(entry.path()).is_ok_and(|mut d| d.next().is_none());
        if !(kind.is_file() || kind.is_symlink() || (kind.is_dir() && empty())) {
            continue;
        }
        let below = entry.path().strip_prefix(source).unwrap_or(entry.path());
        if !filter.passes(below) {
            continue;
        }
        let mut key = prefix.to_vec();
        if !key.is_empty() {
            key.push(b'/');
        }
        key.extend_from_slice(below.as_os_str().as_bytes());
        items.push(Item { path: entry.into_path(), key, metadata });
    }
    Ok(items)
}

fn attributes(metadata: &fs::Metadata) -> Attributes {
    let kind = match metadata.file_type() {
        kind if kind.is_symlink() => Kind::Symlink,
        kind if kind.is_dir() => Kind::Directory,
        _ => Kind::File,
    };
    let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    Attributes { kind, mtime, mode: metadata.mode() & 0o7777, ..Attributes::default() }
}

pub fn put(store: &Store, put: &Put, show: Show) -> Result<bool> {
    let ack = match put.ack {
        Some(Ack::Placed) => terrace::Ack::Placed,
        Some(Ack::Replicated) => terrace::Ack::Replicated,
        Some(Ack::Durable) => terrace::Ack::Durable,
        None => store.config().store.ack.max(terrace::Ack::Replicated),
    };
    let options = |key: &[u8], attributes| PutOptions {
        replicas: put.replicas,
        ack: Some(ack),
        element: terrace::element_of(key),
        attributes,
        create_new: false,
        ..PutOptions::default()
    };
    let dest = put.dest.as_bytes();
    if put.source.as_os_str() == "-" {
        let attributes = Attributes { mode: 0o644, ..Attributes::default() };
        store.put(dest, io::stdin().lock(), &options(dest, attributes))?;
        return Ok(true);
    }
    let items = items(&put.source, dest, &put.filter)?;
    for item in &items {
        key::check(&item.key)?;
    }
    let bar = show.bar(items.iter().map(|i| i.metadata.len()).sum());
    let (mut written, mut skipped, mut failed, mut bytes, mut asked) = (0u64, 0u64, 0u64, 0u64, None);
    for item in &items {
        bar.set_message(key::show(&item.key));
        if unchanged(store, item, put.checksum)? {
            skipped += 1;
            bar.inc(item.metadata.len());
            continue;
        }
        if put.dry_run {
            show.line(&format!("would write {}", key::show(&item.key)));
            continue;
        }
        let attributes = attributes(&item.metadata);
        let options = options(&item.key, attributes);
        tracing::info!(key = %key::show(&item.key), "writing");
        let stored = source(item)
            .map_err(anyhow::Error::from)
            .and_then(|from| Ok(store.put(&item.key, bar.wrap_read(from), &options)?));
        match stored {
            Ok(receipt) => {
                written += 1;
                bytes += receipt.bytes;
                if receipt.want < receipt.asked {
                    asked = Some((receipt.want, receipt.asked));
                }
            }
            Err(e) => {
                failed += 1;
                bar.suspend(|| eprintln!("terrace: {}: {e:#}", item.path.display()));
            }
        }
    }
    bar.finish_and_clear();
    if show.json {
        show.value(&json!({"written": written, "unchanged": skipped, "failed": failed, "bytes": bytes}))?;
    } else {
        show.line(&format!("{written} objects written ({}), {skipped} unchanged, {failed} failed", size(bytes)));
        if let Some((want, asked)) = asked {
            show.line(&format!("{want} of {want} replicas each ({asked} asked; {want} failure domains here)"));
        }
    }
    Ok(failed == 0)
}

fn source(item: &Item) -> io::Result<Box<dyn Read>> {
    let kind = item.metadata.file_type();
    Ok(if kind.is_symlink() {
        Box::new(io::Cursor::new(fs::read_link(&item.path)?.into_os_string().into_vec()))
    } else if kind.is_dir() {
        Box::new(io::empty())
    } else {
        let file = File::open(&item.path)?;
        Box::new(Steady { before: state(&file.metadata()?), file })
    })
}

/// A file's bytes, as long as nobody changes it: what is read of a file that changes is no state that it ever had.
struct Steady {
    file: File,
    before: (u64, i64, i64),
}

impl Read for Steady {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        if read == 0 && !out.is_empty() && state(&self.file.metadata()?) != self.before {
            return Err(io::Error::other("the file changed while it was read; put it again"));
        }
        Ok(read)
    }
}

fn state(metadata: &fs::Metadata) -> (u64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Whether the store has the file already.
fn unchanged(store: &Store, item: &Item, compare: bool) -> Result<bool> {
    let object = match store.stat(&item.key) {
        Ok(object) => object,
        Err(terrace::Error::NotFound { .. }) => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    let now = attributes(&item.metadata);
    if object.attributes.kind != now.kind || (now.kind == Kind::File && object.length != item.metadata.len()) {
        return Ok(false);
    }
    if compare { same(store, item) } else { Ok(object.attributes.mtime == now.mtime) }
}

/// Whether the stored bytes are the file's.
fn same(store: &Store, item: &Item) -> Result<bool> {
    let mut compare = Compare { file: source(item)?, same: true, buffer: Vec::new() };
    store.get_to(&item.key, 0, None, &mut compare)?;
    Ok(compare.same && compare.file.read(&mut [0])? == 0)
}

/// A sink that compares what is written to it with a file.
struct Compare {
    file: Box<dyn Read>,
    same: bool,
    buffer: Vec<u8>,
}

impl Write for Compare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.clear();
        (&mut self.file).take(bytes.len() as u64).read_to_end(&mut self.buffer)?;
        self.same &= self.buffer == bytes;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn check(store: &Store, source: &Path, prefix: &str, filter: &Filter, show: Show) -> Result<bool> {
    let mut bad = Vec::new();
    let items = items(source, prefix.as_bytes(), filter)?;
    for item in &items {
        let same = match same(store, item) {
            Ok(same) => same,
            Err(e) if e.downcast_ref::<terrace::Error>().is_some() => false,
            Err(e) => return Err(e),
        };
        if !same {
            show.line(&format!("differs: {}", key::show(&item.key)));
            bad.push(key::show(&item.key));
        }
    }
    if show.json {
        show.value(&json!({"checked": items.len(), "differ": bad}))?;
    } else {
        show.line(&format!("{} files compared, {} differ", items.len(), bad.len()));
    }
    Ok(bad.is_empty())
}

pub fn cat(store: &Store, key: &str, range: Option<&Range>) -> Result<bool> {
    let (start, end) = range.map_or((0, None), |r| (r.start, r.end));
    store.get_to(key.as_bytes(), start, end, io::stdout().lock())?;
    store.repair_suspects()?;
    Ok(true)
}

pub fn get(store: &Store, get: &Get, show: Show) -> Result<bool> {
    if get.dest.as_os_str() == "-" {
        return cat(store, &get.source, get.range.as_ref());
    }
    let wanted = wanted(store, get)?;
    let bar = show.bar(wanted.iter().map(|w| w.object.length).sum());
    let (mut count, mut bytes, mut failed) = (0u64, 0u64, 0u64);
    for Wanted { key, object, path } in &wanted {
        if get.dry_run {
            show.line(&format!("would write {}", path.display()));
            continue;
        }
        bar.set_message(key::show(key));
        tracing::info!(path = %path.display(), "writing");
        match fetch(store, key, object, path, get.range.as_ref(), &bar) {
            Ok(()) => {
                count += 1;
                bytes += object.length;
            }
            Err(e) => {
                failed += 1;
                bar.suspend(|| eprintln!("terrace: {e:#}"));
            }
        }
    }
    bar.finish_and_clear();
    let repaired = store.repair_suspects()?;
    if show.json {
        show.value(&json!({"read": count, "bytes": bytes, "failed": failed, "repaired": repaired}))?;
    } else {
        show.line(&format!("{count} objects read ({}), {failed} failed", size(bytes)));
        if repaired > 0 {
            show.line(&format!("{repaired} damaged replicas were met and made anew"));
        }
    }
    Ok(failed == 0)
}

/// An object, and the file that it is to become.
struct Wanted {
    key: Vec<u8>,
    object: Object,
    path: PathBuf,
}

/// The one object that is named, or all below it.
fn wanted(store: &Store, get: &Get) -> Result<Vec<Wanted>> {
    let key = get.source.as_bytes();
    match store.stat(key) {
        Ok(object) if object.attributes.kind != Kind::Directory => {
            let into = get.dest.is_dir() || get.dest.as_os_str().as_bytes().ends_with(b"/");
            let name = key.rsplit(|&b| b == b'/').next().unwrap_or(key);
            let path = if into { get.dest.join(OsStr::from_bytes(name)) } else { get.dest.clone() };
            return Ok(vec![Wanted { key: key.to_vec(), object, path }]);
        }
        Ok(_) | Err(terrace::Error::NotFound { .. } | terrace::Error::BadKey { .. }) => {}
        Err(e) => return Err(e.into()),
    }
    if get.range.is_some() {
        bail!("{:?} is not one object; --range takes one", get.source);
    }
    let prefix = key.strip_suffix(b"/").unwrap_or(key);
    let (mut found, mut any) = (Vec::new(), false);
    each(store, prefix, |key, object| {
        let rest = key.strip_prefix(prefix).unwrap_or(key);
        let below = Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)));
        any = true;
        if get.filter.passes(below) {
            found.push(Wanted { key: key.to_vec(), object: object.clone(), path: get.dest.join(below) });
        }
        Ok(())
    })?;
    if !any {
        bail!("nothing is stored at or below {:?}; `terrace ls` lists what is", get.source);
    }
    Ok(found)
}

/// Writes one object to a file, beside it first, so that a file is never half there.
fn fetch(
    store: &Store,
    key: &[u8],
    object: &Object,
    path: &Path,
    range: Option<&Range>,
    bar: &ProgressBar,
) -> Result<()> {
    let context = || format!("writing {}", path.display());
    if object.attributes.kind == Kind::Directory {
        return fs::create_dir_all(path).with_context(context);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(context)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".terrace-{}", std::process::id()));
    let beside = PathBuf::from(name);
    let written = (|| -> Result<()> {
        if object.attributes.kind == Kind::Symlink {
            let to = OsString::from_vec(store.get(key)?);
            return std::os::unix::fs::symlink(to, &beside).with_context(context);
        }
        let file = File::create(&beside).with_context(context)?;
        let (start, end) = range.map_or((0, None), |r| (r.start, r.end));
        store.get_to(key, start, end, bar.wrap_write(&file))?;
        file.set_permissions(fs::Permissions::from_mode(object.attributes.mode & 0o777)).with_context(context)?;
        let nanoseconds = u64::try_from(object.attributes.mtime).unwrap_or(0);
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds)).with_context(context)
    })();
    written.and_then(|()| fs::rename(&beside, path).with_context(context)).inspect_err(|_| {
        // What is half there is of no use; that it cannot be removed is not the error to tell of.
        let _ = fs::remove_file(&beside);
    })
}
