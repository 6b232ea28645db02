//! Compares files with stored objects.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use serde_json::json;
use terrace::{Store, key};

use super::tell_repaired;
use super::tree::{Item, Tree};
use crate::arguments::Filter;
use crate::errors::describe;
use crate::output::{Show, complain, count, name};

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
    same_bytes(store, &item.key, item.open()?)
}

/// Whether the stored bytes equal those of `from`.
pub fn same_bytes(store: &Store, key: &[u8], from: impl Read) -> Result<bool> {
    let mut compare = Compare { from, same: true, buffer: Vec::new() };
    store.get_to(key, 0, None, &mut compare)?;
    Ok(compare.same && compare.from.read(&mut [0])? == 0)
}

/// A writer that compares the written bytes with a source.
struct Compare<R> {
    from: R,
    same: bool,
    buffer: Vec<u8>,
}

impl<R: Read> Write for Compare<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.clear();
        (&mut self.from).take(bytes.len() as u64).read_to_end(&mut self.buffer)?;
        self.same &= self.buffer == bytes;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
