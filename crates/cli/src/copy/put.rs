//! Files into the store.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use terrace::{Attributes, Kind, PutOptions, Receipt, Store, key};

use super::check::same;
use super::tree::{Item, Tree};
use crate::arguments::{Ack, Put};
use crate::errors::describe;
use crate::output::{Show, complain, count, size};

/// What a `put` has done so far.
#[derive(Default)]
struct Done {
    written: u64,
    unchanged: u64,
    failed: u64,
    bytes: u64,
    would_write: Vec<String>,
    /// Replicas had and asked for, where these are not as many.
    fewer: Option<(u8, u8)>,
}

pub fn put(store: &Store, put: &Put, show: Show) -> Result<bool> {
    let mut done = Done::default();
    if put.source.as_os_str() == "-" {
        put_stdin(store, put, &mut done)?;
    } else {
        put_files(store, put, show, &mut done)?;
    }
    done.tell(put.dry_run, show)
}

impl Done {
    fn took(&mut self, receipt: &Receipt) {
        self.written += 1;
        self.bytes += receipt.bytes;
        if receipt.want < receipt.asked {
            self.fewer = Some((receipt.want, receipt.asked));
        }
    }

    fn failed(&mut self, text: &str, bar: &ProgressBar) {
        self.failed += 1;
        bar.suspend(|| complain(text));
    }

    fn tell(self, dry_run: bool, show: Show) -> Result<bool> {
        let Done { written, unchanged, failed, bytes, would_write, fewer } = self;
        if dry_run {
            for key in &would_write {
                show.line(&format!("would write {key}"))?;
            }
            let words = format!("{} to write, {unchanged} unchanged", count(would_write.len() as u64, "object"));
            let value = json!({"would_write": would_write, "unchanged": unchanged, "failed": failed});
            show.result(&value, &words)?;
            return Ok(failed == 0);
        }
        let value = json!({"written": written, "unchanged": unchanged, "failed": failed, "bytes": bytes});
        let written = count(written, "object");
        show.result(&value, &format!("{written} written ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
        if let Some((have, asked)) = fewer {
            let replicas = count(have.into(), "replica");
            show.line(&format!("{replicas} each, not {asked}: there are no more failure domains"))?;
        }
        Ok(failed == 0)
    }
}

fn options(put: &Put, key: &[u8], attributes: Option<Attributes>) -> PutOptions {
    let ack = put.ack.map(|ack| match ack {
        Ack::Placed => terrace::Ack::Placed,
        Ack::Replicated => terrace::Ack::Replicated,
        Ack::Durable => terrace::Ack::Durable,
    });
    PutOptions { replicas: put.replicas, ack, element: terrace::element_of(key), attributes, ..put.wishes.options() }
}

/// Writes an object. Where nothing else is said, all its replicas are there in the end: the process may be, too.
fn write(
    store: &Store,
    put: &Put,
    key: &[u8],
    source: impl Read,
    attributes: Option<Attributes>,
) -> terrace::Result<Receipt> {
    let mut receipt = store.put(key, source, &options(put, key, attributes))?;
    if put.ack.is_none() {
        store.wait(&mut receipt, terrace::Ack::Replicated)?;
    }
    Ok(receipt)
}

fn put_stdin(store: &Store, put: &Put, done: &mut Done) -> Result<()> {
    let key = put.dest.as_bytes();
    if key.is_empty() || key.ends_with(b"/") {
        bail!("stdin has no name to keep; write the whole key, such as {}name", key::show(key));
    }
    key::check(key)?;
    if put.dry_run {
        done.would_write.push(key::show(key));
        return Ok(());
    }
    done.took(&write(store, put, key, io::stdin().lock(), None)?);
    Ok(())
}

fn put_files(store: &Store, put: &Put, show: Show, done: &mut Done) -> Result<()> {
    let tree = Tree::of(store, &put.source, put.dest.as_bytes(), &put.filter)?;
    let bar = show.bar(tree.items.iter().map(|item| item.metadata.len()).sum());
    for error in &tree.failed {
        done.failed(&describe(error), &bar);
    }
    for (path, why) in &tree.skipped {
        complain(&format!("{}: skipped, since {why}", path.display()));
    }
    for item in &tree.items {
        bar.set_message(key::show(&item.key));
        if let Err(e) = put_file(store, put, item, &bar, done) {
            done.failed(&describe(&e), &bar);
            // What waited for room, or for replicas, in vain would do so again for each of the others.
            match e.downcast_ref() {
                Some(terrace::Error::NoSpace { .. }) => complain("the rest is not tried"),
                Some(terrace::Error::StillOwed { .. }) => {
                    complain("it is stored, the rest is not tried; `--ack placed` does not wait for replicas");
                }
                _ => continue,
            }
            break;
        }
    }
    bar.finish_and_clear();
    store.repair_suspects()?;
    Ok(())
}

fn put_file(store: &Store, put: &Put, item: &Item, bar: &ProgressBar, done: &mut Done) -> Result<()> {
    key::check(&item.key)?;
    if unchanged(store, item, put.checksum)? {
        done.unchanged += 1;
        bar.inc(item.metadata.len());
    } else if put.dry_run {
        done.would_write.push(key::show(&item.key));
    } else {
        tracing::info!(key = %key::show(&item.key), "writing");
        let receipt = write(store, put, &item.key, bar.wrap_read(item.open()?), Some(item.attributes()));
        done.took(&receipt.map_err(|e| anyhow::Error::from(e).context(item.path.display().to_string()))?);
    }
    Ok(())
}

/// Whether the store has the file already.
fn unchanged(store: &Store, item: &Item, checksum: bool) -> Result<bool> {
    let object = match store.stat(&item.key) {
        Ok(object) => object,
        Err(terrace::Error::NotFound { .. }) => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    let now = item.attributes();
    let length = if now.kind == Kind::Directory { 0 } else { item.metadata.len() };
    if object.attributes.kind != now.kind || object.length != length {
        return Ok(false);
    }
    if !checksum {
        return Ok(object.attributes.mtime == now.mtime);
    }
    match same(store, item) {
        // What is lost is written anew.
        Err(e) if matches!(e.downcast_ref(), Some(terrace::Error::Unreadable { .. })) => Ok(false),
        same => same,
    }
}
