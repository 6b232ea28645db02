//! Copies files into the store.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use serde_json::json;
use terrace::files::{Files, Owner, Setting};
use terrace::report::{ReplicaLocation, ReplicaState};
use terrace::sparse::{Dense, ReadHoles};
use terrace::{Asked, Attributes, Budget, Kind, PutOptions, Receipt, Store, key};

use super::adopt::{AdoptedCounts, check_adoptable, open_to_adopt};
use super::check::same;
use super::tell_repaired;
use super::tree::{Changes, Item, Tree};
use crate::arguments::{Ack, Put};
use crate::errors::describe;
use crate::output::{Show, complain, count, name, note, path_name, size};

/// The number of objects that are put at the same time into a store that several nodes share. Each waits for the log, and the changes of
/// all of them go into one record.
const SHARED_PUT_THREADS: usize = 16;

/// The number of times that the put of a file is tried again after its node has restarted.
const MAX_STALE_WRITES: usize = 3;
/// A write with fewer replicas than it asked for.
struct ReplicaShortfall {
    have: u8,
    asked: u8,
    possible: u8,
    memory_left_out: bool,
}

/// The progress of a `put`.
#[derive(Default)]
struct Done {
    written: u64,
    unchanged: u64,
    failed: u64,
    bytes: u64,
    would_write: Vec<Vec<u8>>,
    /// If fewer replicas than requested are possible.
    fewer: Option<ReplicaShortfall>,
    /// The number of objects over the budget, and the largest ratio of stored bytes to bytes.
    over_budget: (u64, f64),
    /// The number of objects whose first replica is on a target above the requested latency.
    slow: u64,
    /// The number of stored objects with pending replicas. After the first, the command waits for no further object's replicas.
    late: u64,
    /// The number of those whose acknowledgement waits for these replicas.
    unmet: u64,
    adopted: AdoptedCounts,
    /// The number of objects that are durable when the command returns.
    durable: u64,
}

/// How the bytes of a file get into the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Copied,
    Adopted,
}

pub fn put(store: &Store, put: &Put, show: Show) -> Result<bool> {
    put_all(store, put, Way::Copied, show)
}

/// Puts files without copying their bytes.
pub fn adopt(store: &Store, put: &Put, show: Show) -> Result<bool> {
    check_adoptable(store, put)?;
    put_all(store, put, Way::Adopted, show)
}

fn put_all(store: &Store, put: &Put, way: Way, show: Show) -> Result<bool> {
    put.wishes.check(store.config())?;
    let most = store.config().store.replicas.max;
    let required = put.wishes.options().requirements.into_iter().filter_map(Asked::replicas);
    if let Some(more) = put.replicas.into_iter().chain(required).find(|replicas| *replicas > most) {
        note(&format!("the configuration allows at most {most} replicas, not {more}"));
    }
    let mut done = Done::default();
    if put.source.as_os_str() == "-" {
        put_stdin(store, put, &mut done)?;
    } else {
        put_files(store, put, way, show, &mut done)?;
    }
    if done.durable > 0 && !store.is_shared() {
        // Once for all objects: each of them is durable, but `health` would not know. Nodes that share a store note it by themselves.
        store.mark_placed()?;
    }
    let (late, in_time) = (done.late, done.unmet == 0);
    // An acknowledgement asks for all replicas for which there are failure domains.
    let asks = matches!(put.ack, Some(Ack::Replicated | Ack::Durable)) && !has_budget(store, put);
    let is_thin = asks && done.fewer.as_ref().is_some_and(|fewer| fewer.have < fewer.possible);
    let adopted = (way == Way::Adopted && !put.dry_run).then_some(done.adopted);
    let good = done.report(put.dry_run, has_budget(store, put), show)?;
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

impl Done {
    /// Adds what another thread has done.
    fn add(&mut self, other: Done) {
        let Done {
            over_budget: (objects, times),
            written,
            unchanged,
            failed,
            bytes,
            would_write,
            fewer,
            slow,
            late,
            unmet,
            durable,
            adopted,
        } = other;
        self.adopted.add(adopted);
        self.written += written;
        self.unchanged += unchanged;
        self.failed += failed;
        self.bytes += bytes;
        self.would_write.extend(would_write);
        self.fewer = self.fewer.take().into_iter().chain(fewer).min_by_key(|fewer| fewer.have);
        self.over_budget = (self.over_budget.0 + objects, self.over_budget.1.max(times));
        self.slow += slow;
        self.late += late;
        self.unmet += unmet;
        self.durable += durable;
    }

    fn add_written(&mut self, receipt: &Receipt) {
        self.written += 1;
        self.bytes += receipt.bytes;
        self.slow += u64::from(receipt.is_slow);
        self.durable += u64::from(receipt.durable);
        // The mover may have given some up, because the budget does not pay for them.
        let have = if receipt.owed == 0 { receipt.have.min(receipt.want) } else { receipt.want };
        if have < receipt.asked {
            let Receipt { asked, possible, memory_left_out, .. } = *receipt;
            let fewer = ReplicaShortfall { have, asked, possible, memory_left_out };
            self.fewer = self.fewer.take().into_iter().chain([fewer]).min_by_key(|fewer| fewer.have);
        }
    }

    /// Counts an object that exceeds the budget.
    fn check_budget(&mut self, store: &Store, key: &[u8], Budget(most): Budget) -> Result<()> {
        let location = store.locate(key)?;
        let (stored, bytes) = location.extents.iter().fold((0, 0), |(stored, bytes), extent| {
            (stored + extent.replicas.iter().map(|replica| replica.stored).sum::<u64>(), bytes + extent.length)
        });
        let times = stored as f64 / bytes.max(1) as f64;
        if times > most {
            self.over_budget = (self.over_budget.0 + 1, self.over_budget.1.max(times));
        }
        Ok(())
    }

    fn add_failed(&mut self, text: &str, bar: &ProgressBar) {
        self.failed += 1;
        bar.suspend(|| complain(text));
    }

    fn report(self, dry_run: bool, has_budget: bool, show: Show) -> Result<bool> {
        let Done { written, unchanged, failed, bytes, would_write, fewer, over_budget, slow, late, .. } = self;
        if dry_run {
            for key in &would_write {
                show.line(&format!("would write {}", name(key)))?;
            }
            let would_write: Vec<String> = would_write.iter().map(|key| key::show(key)).collect();
            let words = format!("{} to write, {unchanged} unchanged", count(would_write.len() as u64, "object"));
            let value = json!({"would_write": would_write, "unchanged": unchanged, "failed": failed});
            show.result(&value, &words)?;
            return Ok(failed == 0);
        }
        let value = json!({"written": written, "unchanged": unchanged, "failed": failed, "bytes": bytes, "late": late, "slow": slow});
        let written = count(written, "object");
        show.result(&value, &format!("{written} written ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
        if let Some(ReplicaShortfall { have, asked, possible, memory_left_out }) = fewer {
            let replicas = count(have.into(), "replica");
            let least = if have < possible { "at least " } else { "" };
            let why = match (have < possible, has_budget, memory_left_out) {
                (true, true, _) => "the budget pays for no more, or other tiers have no room",
                (true, false, _) => "other tiers have no room",
                (false, _, true) => "they have to be persistent, and the other tiers are in memory",
                (false, _, false) => "there are no more failure domains",
            };
            show.line(&format!("{least}{replicas} each, not {asked}: {why}"))?;
        }
        if let (objects @ 1.., times) = over_budget {
            let objects = count(objects, "object");
            show.line(&format!("{objects} above the budget, up to {times:.2}x: one replica takes as much"))?;
        }
        if slow > 0 {
            show.line(&format!("{} on a target above max_latency: none is as quick", count(slow, "object")))?;
        }
        Ok(failed == 0)
    }
}

/// Returns whether any budget may limit the replicas.
fn has_budget(store: &Store, put: &Put) -> bool {
    let config = store.config();
    put.wishes.options().budget.is_some()
        || config.store.budget.is_some()
        || config.rules.iter().any(|rule| rule.budget.is_some())
}

fn options(put: &Put, key: &[u8], attributes: Option<Attributes>) -> PutOptions {
    let ack = put.ack.map(|ack| match ack {
        Ack::Placed => terrace::Ack::Placed,
        Ack::Replicated => terrace::Ack::Replicated,
        Ack::Durable => terrace::Ack::Durable,
    });
    PutOptions { replicas: put.replicas, ack, element: terrace::element_of(key), attributes, ..put.wishes.options() }
}

/// Writes an object. By default, waits until all its replicas exist, because the process may end afterwards. A stored object with pending
/// replicas is not a failure; it is counted, and reported once.
fn write(
    store: &Store,
    put: &Put,
    key: &[u8],
    attributes: Option<Attributes>,
    done: &mut Done,
    place: impl FnOnce(&PutOptions) -> terrace::Result<Receipt>,
) -> terrace::Result<()> {
    let waited = match place(&options(put, key, attributes)) {
        Ok(mut receipt) => {
            let waits = put.ack.is_none() && done.late == 0;
            let waited = if waits { store.wait(&mut receipt, terrace::Ack::Replicated) } else { Ok(()) };
            done.add_written(&receipt);
            waited
        }
        Err(late @ terrace::Error::StillOwed { .. }) => {
            done.written += 1;
            done.unmet += 1;
            done.bytes += store.stat(key)?.length;
            Err(late)
        }
        failed => failed.map(drop),
    };
    match waited {
        Err(terrace::Error::StillOwed { .. }) => {
            done.late += 1;
            Ok(())
        }
        waited => waited,
    }
}

fn put_stdin(store: &Store, put: &Put, done: &mut Done) -> Result<()> {
    let key = put.dest.as_bytes();
    if key.is_empty() || key.ends_with(b"/") {
        bail!("stdin has no name to keep; write the whole key, such as {}name", key::show(key));
    }
    key::check(key)?;
    if put.dry_run {
        done.would_write.push(key.to_vec());
        return Ok(());
    }
    // Only this thread reads stdin.
    Ok(write(store, put, key, None, done, |options| store.put_sparse(key, Dense(io::stdin().lock()), options))?)
}

fn put_files(store: &Store, put: &Put, way: Way, show: Show, done: &mut Done) -> Result<()> {
    let tree = Tree::of(store, &put.source, put.dest.as_bytes(), &put.filter)?;
    let bar = show.bar(tree.items.iter().map(|item| item.metadata.len()).sum());
    for error in &tree.failed {
        done.add_failed(&describe(error), &bar);
    }
    for (path, why) in &tree.skipped {
        note(&format!("{}: skipped, since {why}", path_name(path)));
    }
    let threads = if store.is_shared() && !put.dry_run { SHARED_PUT_THREADS } else { 1 };
    put_items(store, put, way, &tree.items, threads, &bar, done);
    bar.finish_and_clear();
    tell_repaired(store)?;
    if done.unchanged > 0 && done.late == 0 && !put.dry_run && is_ack_of_all(put) {
        // Unchanged objects may still have pending replicas to wait for.
        store.sync()?;
    }
    Ok(())
}

/// Puts items with several threads. A directory comes after its entries, so with more than one thread it comes after all files.
fn put_items(store: &Store, put: &Put, way: Way, items: &[Item], threads: usize, bar: &ProgressBar, done: &mut Done) {
    let (folders, files): (Vec<&Item>, Vec<&Item>) =
        items.iter().partition(|item| threads > 1 && item.metadata.is_dir());
    let ends = AtomicBool::new(false);
    for (part, threads) in [(files, threads), (folders, 1)] {
        let next = AtomicUsize::new(0);
        let put_some = || {
            let mut own = Done::default();
            // Relaxed: each number is given out once, and an item too many does no harm.
            while !ends.load(Ordering::Relaxed)
                && let Some(item) = part.get(next.fetch_add(1, Ordering::Relaxed))
            {
                bar.set_message(name(&item.key));
                let stops = match put_file(store, put, way, item, bar, &mut own) {
                    Ok(()) => own.unmet > 0,
                    Err(e) => {
                        own.add_failed(&describe(&e), bar);
                        // After waiting for space in vain, do not wait again for each of the other objects.
                        matches!(e.downcast_ref(), Some(terrace::Error::NoSpace { .. }))
                    }
                };
                let left = part.len().saturating_sub(next.load(Ordering::Relaxed)) as u64;
                if stops && left > 0 && !ends.swap(true, Ordering::Relaxed) {
                    complain(&format!("the rest, {}, is not tried", count(left, "file")));
                }
            }
            own
        };
        if threads == 1 {
            done.add(put_some());
            continue;
        }
        thread::scope(|scope| {
            let started: Vec<_> = (0..threads.min(part.len())).map(|_| scope.spawn(put_some)).collect();
            for thread in started {
                done.add(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
    }
}

fn put_file(store: &Store, put: &Put, way: Way, item: &Item, bar: &ProgressBar, done: &mut Done) -> Result<()> {
    key::check(&item.key)?;
    if unchanged(store, item, put)? {
        done.unchanged += 1;
        bar.inc(item.metadata.len());
    } else if put.dry_run {
        done.would_write.push(item.key.clone());
    } else {
        tracing::info!(key = name(&item.key), "writing");
        if item.metadata.is_dir() && put_directory(store, item)? {
            done.written += 1;
            return Ok(());
        }
        if way == Way::Adopted && item.metadata.is_file() {
            let mut how = None;
            let file = open_to_adopt(item).with_context(|| path_name(&item.path))?;
            let adopted = write(store, put, &item.key, Some(item.attributes.clone()), done, |options| {
                let (adopted_how, receipt) = store.adopt(&item.key, &file, options)?;
                how = Some(adopted_how);
                Ok(receipt)
            });
            adopted.map_err(|e| anyhow::Error::from(e).context(path_name(&item.path)))?;
            done.adopted.count(how.filter(|_| item.metadata.len() > 0));
            bar.inc(item.metadata.len());
            return Ok(());
        }
        let changes = if put.snapshot { Changes::Allowed } else { Changes::Refused };
        let mut write = || -> Result<terrace::Result<()>> {
            let source = ProgressReader { from: item.open(changes)?, bar };
            let attributes = Some(item.attributes.clone());
            Ok(write(store, put, &item.key, attributes, done, |options| store.put_sparse(&item.key, source, options)))
        };
        let mut written = write()?;
        for _ in 0..MAX_STALE_WRITES {
            // A node has begun again before the bytes on it were committed.
            if !matches!(written, Err(terrace::Error::Stale)) {
                break;
            }
            written = write()?;
        }
        written.map_err(|e| anyhow::Error::from(e).context(path_name(&item.path)))?;
        if let Some(budget) = put.wishes.options().budget {
            done.check_budget(store, &item.key, budget)?;
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

/// Whether the store already has the file with the requirements that are now requested.
fn unchanged(store: &Store, item: &Item, put: &Put) -> Result<bool> {
    let object = match store.stat(&item.key) {
        Ok(object) => object,
        Err(terrace::Error::NotFound { .. }) => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    let now = &item.attributes;
    let length = if now.kind == Kind::Directory { 0 } else { item.metadata.len() };
    let owner = store.owner()?;
    let is_owner = |attributes| Owner::of_object(attributes, owner) == Owner::of(&item.metadata);
    let alike =
        object.attributes.kind == now.kind && object.attributes.mode == now.mode && is_owner(&object.attributes);
    if !alike || object.length != length {
        return Ok(false);
    }
    let asked = options(put, &item.key, None).lasting();
    if asked != PutOptions::default() && asked != PutOptions::kept_with(&item.key, &object)?.lasting() {
        return Ok(false);
    }
    if store.has_lost(&item.key, &object) {
        return Ok(false);
    }
    // An eviction or a move may have left fewer replicas than are asked for.
    let least = if is_ack_of_all(put) { usize::from(object.want) } else { 1 };
    if !has_replicas(store, &item.key, least)? {
        return Ok(false);
    }
    if !put.checksum {
        return Ok(object.attributes.mtime == now.mtime);
    }
    match same(store, item) {
        // Write lost bytes again.
        Err(e) if matches!(e.downcast_ref(), Some(terrace::Error::Unreadable { .. })) => Ok(false),
        same => same,
    }
}

/// Returns whether the command acknowledges that all replicas exist.
fn is_ack_of_all(put: &Put) -> bool {
    matches!(put.ack, Some(Ack::Replicated | Ack::Durable))
}

/// Returns whether every extent of an object has a replica, and this number with those that are pending, judged without reading: the files
/// exist.
fn has_replicas(store: &Store, key: &[u8], least: usize) -> Result<bool> {
    let is_there = |replica: &&ReplicaLocation| replica.file.as_ref().is_none_or(|file| file.exists());
    let has_enough = |replicas: &[ReplicaLocation]| {
        let there: Vec<&ReplicaLocation> = replicas.iter().filter(is_there).collect();
        let targets: BTreeSet<&str> = there.iter().map(|replica| replica.target.as_str()).collect();
        there.iter().any(|replica| replica.state == ReplicaState::Present) && targets.len() >= least
    };
    Ok(store.locate(key)?.extents.iter().all(|extent| has_enough(&extent.replicas)))
}
