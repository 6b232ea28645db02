//! What is stored into files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufReader, StdoutLock, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Error, Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use terrace::{Attributes, Kind, Object, Store, key};

use super::check::same_bytes;
use crate::arguments::{Get, Range};
use crate::errors::{describe, io_kind};
use crate::interrupt::Beside;
use crate::look::each;
use crate::output::{Show, complain, count, size};

pub fn cat(store: &Store, key: &OsStr, range: Option<&Range>) -> Result<bool> {
    let (start, end) = ends(range);
    let mut pipe = Pipe { out: io::stdout().lock(), closed: false };
    let written = store.get_to(key.as_bytes(), start, end, &mut pipe);
    let written = written.map_err(Error::from).and_then(|_| pipe.flush().context("writing to stdout"));
    store.repair_suspects()?;
    if pipe.closed { Ok(true) } else { written.map(|()| true) }
}

/// Stdout, and whether its reader has gone away, which is no error of ours.
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

fn ends(range: Option<&Range>) -> (u64, Option<u64>) {
    range.map_or((0, None), |range| (range.start, range.end))
}

/// An object, and the file that it is to become.
struct Wanted {
    key: Vec<u8>,
    object: Object,
    path: PathBuf,
    /// Whether it was named, rather than found below a prefix.
    named: bool,
}

pub fn get(store: &Store, get: &Get, show: Show) -> Result<bool> {
    let wanted = wanted(store, get)?;
    if get.dest.as_os_str() == "-" && !get.dry_run {
        return cat(store, &get.source, get.range.as_ref());
    }
    let bar = show.bar(wanted.iter().map(|w| w.object.length).sum());
    let (mut read, mut unchanged, mut failed, mut bytes) = (0, 0, 0, 0);
    let mut would_write = Vec::new();
    for wanted in &wanted {
        bar.set_message(key::show(&wanted.key));
        match get_one(store, get, wanted, &bar) {
            Ok(Got::Unchanged) => {
                unchanged += 1;
                bar.inc(wanted.object.length);
            }
            Ok(Got::WouldWrite) => would_write.push(wanted.path.display().to_string()),
            Ok(Got::Bytes(length)) => {
                read += 1;
                bytes += length;
            }
            Err(e) => {
                failed += 1;
                bar.suspend(|| complain(&describe(&e)));
                if matches!(io_kind(&e), Some(io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem)) {
                    complain("the rest is not tried");
                    break;
                }
            }
        }
    }
    bar.finish_and_clear();
    let repaired = store.repair_suspects()?;
    if get.dry_run {
        for path in &would_write {
            show.line(&format!("would write {path}"))?;
        }
        let words = format!("{} to write, {unchanged} unchanged", count(would_write.len() as u64, "file"));
        show.result(&json!({"would_write": would_write, "unchanged": unchanged, "failed": failed}), &words)?;
        return Ok(failed == 0);
    }
    let value = json!({"read": read, "unchanged": unchanged, "bytes": bytes, "failed": failed, "repaired": repaired});
    let read = count(read, "object");
    show.result(&value, &format!("{read} read ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
    if repaired > 0 {
        show.line(&format!("{} met and made anew", count(repaired, "damaged replica")))?;
    }
    Ok(failed == 0)
}

/// The one object that is named, or all below it.
fn wanted(store: &Store, get: &Get) -> Result<Vec<Wanted>> {
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
    // Last, since their modes and times must stand once there is something in them.
    found.sort_by_key(|wanted| wanted.object.attributes.kind == Kind::Directory);
    if !get.dry_run {
        // Where it cannot be made, that is said once.
        fs::create_dir_all(&get.dest).with_context(|| format!("making {}", get.dest.display()))?;
    }
    Ok(found)
}

/// What became of one object.
enum Got {
    Unchanged,
    WouldWrite,
    Bytes(u64),
}

fn get_one(store: &Store, get: &Get, wanted: &Wanted, bar: &ProgressBar) -> Result<Got> {
    if !wanted.named && unchanged(store, get, wanted)? {
        return Ok(Got::Unchanged);
    }
    if get.dry_run {
        return Ok(Got::WouldWrite);
    }
    tracing::info!(path = %wanted.path.display(), "writing");
    let context = || format!("writing {}", wanted.path.display());
    write(store, wanted, get.range.as_ref(), bar).map(Got::Bytes).with_context(context)
}

/// Whether the file is there already: with its size and time, or its very bytes.
fn unchanged(store: &Store, get: &Get, wanted: &Wanted) -> Result<bool> {
    let Wanted { key, object, path, .. } = wanted;
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
        return same_bytes(store, key, BufReader::new(File::open(path)?));
    }
    let same_mode = metadata.mode() & 0o777 == object.attributes.mode & 0o777;
    Ok(same_mode && metadata.modified()? == modified(&object.attributes))
}

/// Writes one object to a file, beside it first, so that a file is never half there; the bytes written.
fn write(store: &Store, wanted: &Wanted, range: Option<&Range>, bar: &ProgressBar) -> Result<u64> {
    let Wanted { key, object: Object { attributes, .. }, path, .. } = wanted;
    if attributes.kind == Kind::Directory {
        fs::create_dir_all(path)?;
        finish(&File::open(path)?, attributes)?;
        return Ok(0);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    if attributes.kind == Kind::Symlink {
        let to = store.get(key)?;
        let length = to.len() as u64;
        let (beside, ()) = Beside::make(path, |beside| symlink(OsString::from_vec(to), beside))?;
        beside.into_place(path)?;
        return Ok(length);
    }
    let (beside, file) =
        Beside::make(path, |beside| File::options().write(true).create_new(true).mode(0o600).open(beside))?;
    let (start, end) = ends(range);
    let length = store.get_to(key, start, end, bar.wrap_write(&file))?;
    finish(&file, attributes)?;
    beside.into_place(path)?;
    Ok(length)
}

/// Gives a file the mode and the time that it had.
fn finish(file: &File, attributes: &Attributes) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(attributes.mode & 0o777))?;
    file.set_modified(modified(attributes))
}

fn modified(attributes: &Attributes) -> SystemTime {
    let distance = Duration::from_nanos(attributes.mtime.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if attributes.mtime < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    time.unwrap_or(epoch)
}
