//! Copies files into the store.

use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use terrace::files::{Files, Owner, Setting};
use terrace::sparse::{Dense, ReadHoles};
use terrace::{Asked, Attributes, Kind, PutOptions, Receipt, Store, key, retry_if_stale};

use super::adopt::{check_adoptable, open_to_adopt};
use super::put_options::{Put, has_budget, is_ack_of_all, options};
use super::put_progress::Progress;
use super::source_file::FileChanges;
use super::tell_repaired;
use super::tree::{Item, Tree, check_not_own};
use super::unchanged::is_unchanged;
use crate::at_once::fold_at_once;
use crate::errors::describe;
use crate::output::{Show, complain, count, name, note, path_name};

/// The number of objects that are put at the same time: one waits for its file or its target while another one is encoded.
const PUT_THREADS: usize = 4;
/// The number of objects that are put at the same time into a store that several nodes share. Each waits for the log, and the changes of
/// all of them go into one record.
const SHARED_PUT_THREADS: usize = 16;

/// How the bytes of a file get into the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PutMode {
    Copied,
    Adopted,
}

pub fn put(store: &Store, put: &Put, show: Show) -> Result<bool> {
    check_not_own(store, &put.source)?;
    put_all(store, put, PutMode::Copied, show)
}

/// Puts files without copying their bytes.
pub fn adopt(store: &Store, put: &Put, show: Show) -> Result<bool> {
    check_adoptable(store, put)?;
    put_all(store, put, PutMode::Adopted, show)
}

fn put_all(store: &Store, put: &Put, mode: PutMode, show: Show) -> Result<bool> {
    put.wishes.check(store.config())?;
    let most = store.config().store.replicas.max;
    let required = put.wishes.options().requirements.into_iter().filter_map(Asked::replicas);
    if let Some(more) = put.replicas.into_iter().chain(required).find(|replicas| *replicas > most) {
        note(&format!("the configuration allows at most {most} replicas, not {more}"));
    }
    let mut progress = Progress::default();
    if put.source.as_os_str() == "-" {
        put_stdin(store, put, &mut progress)?;
    } else {
        put_files(store, put, mode, show, &mut progress)?;
    }
    if progress.durable > 0 && !store.is_shared() {
        // Once for all objects: each of them is durable, but `health` would not know. Nodes that share a store note it by themselves.
        store.mark_placed()?;
    }
    let (late, in_time) = (progress.late, progress.unmet == 0);
    // An acknowledgement asks for all replicas for which there are failure domains.
    let asks = is_ack_of_all(put) && !has_budget(store, put);
    let is_thin = asks && progress.fewer.as_ref().is_some_and(|fewer| fewer.have < fewer.possible);
    let adopted = (mode == PutMode::Adopted && !put.dry_run).then_some(progress.adopted);
    let good = progress.report(put.dry_run, has_budget(store, put), show)?;
    if let Some(adopted) = adopted {
        adopted.show(show)?;
    }
    if late > 0 {
        let owed = store.status()?.owed;
        let missed = if in_time { "" } else { ", but not yet as its acknowledgement asks" };
        let say = if in_time { note } else { complain };
        say(&format!(
            "{} stored{missed}; {} {} pending; `terrace status` shows which tier is full, slow or away, `terrace sync` makes them",
            if late == 1 { "it is".into() } else { format!("{late} of them are") },
            count(owed, "replica"),
            if owed == 1 { "is" } else { "are" },
        ));
    }
    Ok(good && in_time && !is_thin)
}

/// Writes an object by `store_bytes`. By default, waits until all its replicas exist, because the process may end afterwards. A stored object
/// with pending replicas is not a failure; it is counted, and reported once.
fn write(
    store: &Store,
    put: &Put,
    key: &[u8],
    attributes: Option<Attributes>,
    progress: &mut Progress,
    store_bytes: impl FnOnce(&PutOptions) -> terrace::Result<Receipt>,
) -> terrace::Result<()> {
    let waited = match store_bytes(&options(put, key, attributes)) {
        Ok(mut receipt) => {
            let waits = put.ack.is_none() && progress.late == 0;
            let waited = if waits { store.wait(&mut receipt, terrace::Ack::Replicated) } else { Ok(()) };
            progress.add_written(&receipt);
            waited
        }
        Err(late @ terrace::Error::StillOwed { .. }) => {
            progress.written += 1;
            progress.unmet += 1;
            progress.bytes += store.stat(key)?.length;
            Err(late)
        }
        failed => failed.map(drop),
    };
    match waited {
        Err(terrace::Error::StillOwed { .. }) => {
            progress.late += 1;
            Ok(())
        }
        waited => waited,
    }
}

fn put_stdin(store: &Store, put: &Put, progress: &mut Progress) -> Result<()> {
    let key = put.dest.as_bytes();
    if key.is_empty() || key.ends_with(b"/") {
        bail!("stdin has no name to keep; write the whole key, such as {}name", key::show(key));
    }
    key::check(key)?;
    if put.dry_run {
        progress.would_write.push(key.to_vec());
        return Ok(());
    }
    // Only this thread reads stdin.
    Ok(write(store, put, key, None, progress, |options| store.put_sparse(key, Dense(io::stdin().lock()), options))?)
}

fn put_files(store: &Store, put: &Put, mode: PutMode, show: Show, progress: &mut Progress) -> Result<()> {
    let tree = Tree::of(store, &put.source, put.dest.as_bytes(), &put.filter)?;
    let bar = show.bar(tree.items.iter().map(|item| item.metadata.len()).sum());
    for error in &tree.failed {
        progress.add_failed(&describe(error), &bar);
    }
    for (path, why) in &tree.skipped {
        note(&format!("{}: skipped, since {why}", path_name(path)));
    }
    let threads = match (put.dry_run, store.is_shared()) {
        (true, _) => 1,
        (false, true) => SHARED_PUT_THREADS,
        (false, false) => PUT_THREADS,
    };
    put_items(store, put, mode, &tree.items, threads, &bar, progress);
    bar.finish_and_clear();
    tell_repaired(store)?;
    if progress.unchanged > 0 && progress.late == 0 && !put.dry_run && is_ack_of_all(put) {
        // Unchanged objects may still have pending replicas to wait for.
        store.sync()?;
    }
    Ok(())
}

/// Puts items with several threads. A directory comes after its entries, so with more than one thread it comes after all files.
fn put_items(
    store: &Store,
    put: &Put,
    mode: PutMode,
    items: &[Item],
    threads: usize,
    bar: &ProgressBar,
    progress: &mut Progress,
) {
    let (folders, files): (Vec<&Item>, Vec<&Item>) =
        items.iter().partition(|item| threads > 1 && item.metadata.is_dir());
    let ends = AtomicBool::new(false);
    for (part, threads) in [(files, threads), (folders, 1)] {
        let begun = AtomicUsize::new(0);
        let put_one = |own: &mut Progress, _, item: &&Item| {
            // Relaxed: nothing else depends on these two, and an item too many does no harm.
            if ends.load(Ordering::Relaxed) {
                return;
            }
            begun.fetch_add(1, Ordering::Relaxed);
            bar.set_message(name(&item.key));
            let stops = match put_file(store, put, mode, item, bar, own) {
                Ok(()) => own.unmet > 0,
                Err(e) => {
                    own.add_failed(&describe(&e), bar);
                    // After waiting for space in vain, do not wait again for each of the other objects.
                    matches!(e.downcast_ref(), Some(terrace::Error::NoSpace { .. }))
                }
            };
            let left = part.len() - begun.load(Ordering::Relaxed);
            if stops && left > 0 && !ends.swap(true, Ordering::Relaxed) {
                complain(&format!("the rest, {}, is not tried", count(left as u64, "file")));
            }
        };
        fold_at_once(threads, &part, put_one).into_iter().for_each(|own| progress.add(own));
    }
}

fn put_file(
    store: &Store,
    put: &Put,
    mode: PutMode,
    item: &Item,
    bar: &ProgressBar,
    progress: &mut Progress,
) -> Result<()> {
    key::check(&item.key)?;
    if is_unchanged(store, item, put)? {
        progress.unchanged += 1;
        bar.inc(item.metadata.len());
    } else if put.dry_run {
        progress.would_write.push(item.key.clone());
    } else {
        tracing::info!(key = name(&item.key), "writing");
        if item.metadata.is_dir() && put_directory(store, item)? {
            progress.written += 1;
            return Ok(());
        }
        if mode == PutMode::Adopted && item.metadata.is_file() {
            let mut how = None;
            let file = open_to_adopt(item).with_context(|| path_name(&item.path))?;
            let adopted = write(store, put, &item.key, Some(item.attributes.clone()), progress, |options| {
                let (adopted_how, receipt) = store.adopt(&item.key, &file, options)?;
                how = Some(adopted_how);
                Ok(receipt)
            });
            adopted.map_err(|e| anyhow::Error::from(e).context(path_name(&item.path)))?;
            progress.adopted.count(how.filter(|_| item.metadata.len() > 0));
            bar.inc(item.metadata.len());
            return Ok(());
        }
        let changes = if put.snapshot { FileChanges::Allowed } else { FileChanges::Refused };
        let written = retry_if_stale(|| {
            let source = match item.open(changes) {
                Ok(from) => ProgressReader { from, bar },
                Err(e) => return Ok(Err(e)),
            };
            let attributes = Some(item.attributes.clone());
            write(store, put, &item.key, attributes, progress, |options| store.put_sparse(&item.key, source, options))
                .map(Ok)
        });
        written.map_err(|e| anyhow::Error::from(e).context(path_name(&item.path)))??;
        if let Some(budget) = put.wishes.options().budget {
            progress.check_budget(store, &item.key, budget)?;
        }
    }
    Ok(())
}

/// Updates the attributes of a directory that has entries. Returns false if the directory must be created.
fn put_directory(store: &Store, item: &Item) -> Result<bool> {
    let attributes = &item.attributes;
    match store.stat(&item.key) {
        Ok(object) if object.attributes.kind == Kind::Directory => {
            let mut attributes = attributes.clone();
            attributes.user.extend(object.attributes.user.into_iter().filter(|(name, _)| !name.starts_with("posix.")));
            store.set_attributes(&item.key, attributes)?;
            Ok(true)
        }
        Err(terrace::Error::NotFound { .. }) if !store.list(&item.key, None, 1)?.is_empty() => {
            let owner = Owner::of(&item.metadata);
            let (uid, gid) = (Some(owner.uid), Some(owner.gid));
            let (mode, modified) = (Some(attributes.mode), Some(attributes.mtime));
            Files::new(store)?.set(&item.key, &Setting { mode, uid, gid, accessed: None, modified })?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// A file reader that advances a progress bar.
struct ProgressReader<'a, R> {
    from: R,
    bar: &'a ProgressBar,
}

impl<R: Read> Read for ProgressReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(out)?;
        self.bar.inc(read as u64);
        Ok(read)
    }
}

impl<R: ReadHoles> ReadHoles for ProgressReader<'_, R> {
    fn pass_hole(&mut self) -> io::Result<u64> {
        let hole = self.from.pass_hole()?;
        self.bar.inc(hole);
        Ok(hole)
    }
}
