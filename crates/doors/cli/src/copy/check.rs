//! Compares files with stored objects.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use serde_json::json;
use terrace::sparse::{ReadHoles, WriteHoles};
use terrace::{Kind, Store, key};

use super::filter::Filter;
use super::source_file::FileChanges;
use super::tell_repaired;
use super::tree::{Item, Tree};
use crate::errors::describe;
use crate::output::{Show, complain, count, name};

/// The largest number of bytes of a file that are read at once.
const MAX_READ_BYTES: u64 = 1 << 20;

pub fn check(store: &Store, source: &Path, prefix: &OsStr, filter: &Filter, show: Show) -> Result<bool> {
    let tree = Tree::of(store, source, prefix.as_bytes(), filter)?;
    tree.failed.iter().for_each(|e| complain(&describe(e)));
    let mut failed = tree.failed.len() as u64;
    let (mut differ, mut missing) = (Vec::new(), Vec::new());
    for item in &tree.items {
        let (what, list) = match same(store, item) {
            Ok(true) => continue,
            Ok(false) => ("differs", &mut differ),
            Err(e) => match e.downcast_ref::<terrace::Error>() {
                // A folder of files that were put one by one has no object of its own.
                Some(terrace::Error::NotFound { .. })
                    if item.attributes.kind == Kind::Directory && !store.list(&item.key, None, 1)?.is_empty() =>
                {
                    continue;
                }
                Some(terrace::Error::NotFound { .. }) => ("missing", &mut missing),
                _ => {
                    failed += 1;
                    complain(&describe(&e));
                    continue;
                }
            },
        };
        show.line(&format!("{what}: {}", name(&item.key)))?;
        list.push(key::show(&item.key));
    }
    tell_repaired(store)?;
    let words = format!(
        "{} compared, {} differ, {} missing, {failed} failed",
        count(tree.items.len() as u64, "file"),
        differ.len(),
        missing.len()
    );
    let good = differ.is_empty() && missing.is_empty() && failed == 0;
    show.result(&json!({"checked": tree.items.len(), "differ": differ, "missing": missing, "failed": failed}), &words)?;
    Ok(good)
}

/// Whether the stored object has the same kind and the same bytes.
pub fn same(store: &Store, item: &Item) -> Result<bool> {
    if store.stat(&item.key)?.attributes.kind != item.attributes.kind {
        return Ok(false);
    }
    same_bytes(store, &item.key, item.open(FileChanges::Refused)?)
}

/// Whether the stored bytes equal those of `from`. Where both have a hole, nothing is read.
pub fn same_bytes(store: &Store, key: &[u8], from: impl ReadHoles) -> Result<bool> {
    let mut compare = Compare { from, hole: 0, same: true, buffer: Vec::new() };
    store.get_sparse(key, 0, None, &mut compare)?;
    Ok(compare.same && compare.is_at_end()?)
}

/// A writer that compares the written bytes with a source.
struct Compare<R> {
    from: R,
    /// The rest of the source's hole.
    hole: u64,
    same: bool,
    /// Bytes that were read of the source.
    buffer: Vec<u8>,
}

impl<R: ReadHoles> Compare<R> {
    /// Takes at most `limit` bytes from the source: zeros of a hole, or those in the buffer. Returns their number, and
    /// whether they are of a hole; 0 at the source's end.
    fn take(&mut self, limit: u64) -> io::Result<(u64, bool)> {
        self.buffer.clear();
        if self.hole == 0 && !self.read(limit)? {
            self.hole = self.from.pass_hole()?;
            if self.hole == 0 {
                self.read(limit)?;
            }
        }
        let taken = self.hole.min(limit);
        self.hole -= taken;
        Ok(if taken > 0 { (taken, true) } else { (self.buffer.len() as u64, false) })
    }

    fn read(&mut self, limit: u64) -> io::Result<bool> {
        Ok((&mut self.from).take(limit.min(MAX_READ_BYTES)).read_to_end(&mut self.buffer)? > 0)
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.take(1)?.0 == 0)
    }
}

impl<R: ReadHoles> Write for Compare<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (taken, is_hole) = self.take(bytes.len() as u64)?;
        if taken == 0 {
            self.same = false;
            return Ok(bytes.len());
        }
        let bytes = &bytes[..taken as usize];
        self.same &= if is_hole { bytes.iter().all(|byte| *byte == 0) } else { self.buffer == bytes };
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R: ReadHoles> WriteHoles for Compare<R> {
    fn skip_hole(&mut self, mut length: u64) -> io::Result<()> {
        while length > 0 && self.same {
            let (taken, is_hole) = self.take(length)?;
            self.same &= taken > 0 && (is_hole || self.buffer.iter().all(|byte| *byte == 0));
            length -= taken;
        }
        Ok(())
    }
}
