//! The catalog: the location of each object's extents and replicas. It is an index over the commit log, in LMDB.
//!
//! Many processes of one node share it. No read transaction is held during I/O, and nothing slow happens under the write lock:
//! a commit appends its record to the log and returns. Syncing comes later.

mod apply;
mod children;
mod chunks;
mod commit_flag;
mod count_changes;
mod counts;
mod dead;
mod environment;
mod error;
mod expiry;
mod extents;
mod file_check;
mod follow;
mod group;
mod history;
mod keys;
mod leases;
mod listing;
pub mod log;
mod log_start;
mod members;
mod owed;
mod plain;
mod query;
mod replacing;
mod retired;
mod seal;
mod shared;
mod shared_log;
mod snapshot;
mod verdict;
mod which_store;

pub use apply::Live;
pub use children::Child;
pub use dead::{Dead, DeadPlaces};
pub use environment::check_pages;
pub use error::{Error, Result};
pub use extents::lay;
pub use follow::Followed;
pub use listing::{NameListing, NamePage};
pub use log_start::{FIRST_TAIL, find_end, newest_snapshot};
pub use members::{Member, Served, first_number};
pub use plain::Unfollowed;
pub use seal::Seal;
pub use shared::{Miscounted, SharedFrame};
use shared_log::Prepare;
pub use shared_log::SharedLog;
pub use snapshot::snapshot_tail;
pub use verdict::Verdict;
pub use which_store::read_seals;

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use heed::Database;
use heed::types::Bytes;
use rustix_futex_sync::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use terrace_system::clock::{monotonic_nanos, unix_seconds};
use terrace_system::reserve::Reserve;

use crate::log::{Log, Tail};
use apply::Applier;
use commit_flag::CommitFlag;
pub use environment::Moment;
use environment::{Environment, Holder};
use group::CommitQueue;

pub use terrace_format::{
    Attributes, Change, Edit, Expect, Extent, Kind, NewExtent, Object, Owed, Replica, Source, TargetId, Task, Voids,
    frames,
};

/// All records, in one unnamed database.
type Records = Database<Bytes, Bytes>;

/// Numbers that a process claims at a time.
const ID_BLOCK: u64 = 4096;

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its place in the order of all commits.
    pub sequence: u64,
}

/// An open catalog with its log.
pub struct Catalog {
    environment: Holder,
    log: Log,
    /// The log that several nodes share. Unset if only the processes of this machine use the store.
    shared_log: OnceLock<Box<dyn SharedLog>>,
    /// Called before each change goes into the shared log.
    prepare: OnceLock<Box<Prepare>>,
    commit_queue: CommitQueue,
    commit_flag: CommitFlag,
    reserve: Reserve,
    /// The numbers that this process has claimed and not yet given out: the next one, and the end. Taken before LMDB's write
    /// lock, never under it, and held while a block is claimed: two threads would otherwise claim a block each.
    ids: Mutex<(u64, u64)>,
    oldest_segment: OnceLock<u64>,
    /// No change is committed before this time, in nanoseconds of the monotonic clock. 0 once it has passed. It is set before
    /// the catalog is shared with other threads, so relaxed loads see it; clearing it only saves reading the clock.
    changes_begin_at: AtomicU64,
}

/// Buffers of a thread that commits.
#[derive(Default)]
struct Buffers {
    /// All changes' edits, encoded.
    edits: Vec<u8>,
    /// The edits of the changes that are carried out.
    commits: Vec<u8>,
    /// The log's record.
    record: Vec<u8>,
}

impl Catalog {
    /// Opens the catalog in `folder` over `log`. Creates the folder if it is missing.
    ///
    /// ```
    /// use terrace_catalog::log::Log;
    /// use terrace_catalog::{Attributes, Catalog, Edit};
    ///
    /// let dir = tempfile::tempdir()?;
    /// let (store, attributes) = (7, Attributes::default());
    /// let log = Log::open(&dir.path().join("log"), store)?;
    /// let catalog = Catalog::open(&dir.path().join("catalog"), log)?;
    /// let (key, object) = (b"data/a".to_vec(), catalog.next_id()?);
    /// let edit = Edit::Put { key, object, length: 0, want: 1, attributes, staged: false, extents: Vec::new() };
    /// catalog.commit(edit.into())?;
    /// assert_eq!(catalog.object(b"data/a")?.map(|found| found.id), Some(object));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(folder: &Path, log: Log) -> Result<Catalog> {
        // The store's directory, which also holds the log.
        let reserve = Reserve::new(folder.parent().unwrap_or(folder));
        let catalog = Catalog {
            reserve,
            environment: Holder::open(folder)?,
            log,
            shared_log: OnceLock::new(),
            prepare: OnceLock::new(),
            commit_queue: CommitQueue::default(),
            commit_flag: CommitFlag::open(&folder.join("turn")),
            ids: Mutex::new((0, 0)),
            oldest_segment: OnceLock::new(),
            changes_begin_at: AtomicU64::new(0),
        };
        catalog.log.fit_to(catalog.used_bytes()?);
        Ok(catalog)
    }

    /// Delays all commits until this time of the monotonic clock, in nanoseconds.
    pub fn delay_changes_until(&self, time: u64) {
        self.changes_begin_at.store(time, Ordering::Relaxed);
    }

    fn wait_until_changes_may_begin(&self) {
        let time = self.changes_begin_at.load(Ordering::Relaxed);
        if time > 0 {
            std::thread::sleep(Duration::from_nanos(time.saturating_sub(monotonic_nanos())));
            self.changes_begin_at.store(0, Ordering::Relaxed);
        }
    }

    /// Space on the disk of the store's directory, reserved for operations that must be possible on a full disk.
    pub fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    fn env(&self) -> Result<Arc<Environment>> {
        self.environment.get()
    }

    /// Returns whether this process inherited the catalog through a fork, and thus cannot use it.
    pub fn inherited(&self) -> bool {
        self.environment.inherited()
    }

    /// Closes an inherited catalog, so that this process can open its own.
    pub fn leave(&self) {
        self.environment.leave();
    }

    /// The log below.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Carries out a change, whole or not at all. When it returns, the change is in the log and visible to all processes, but
    /// not synced.
    ///
    /// # Errors
    /// [`Error::Conflict`] or [`Error::NotFound`] if an expectation does not hold. Nothing has changed then. With a shared log also
    /// those of [`SharedLog::carry_out`].
    pub fn commit(&self, change: Change) -> Result<Commit> {
        // Before it waits: in a fork, the thread that commits may be one that only the parent has.
        self.env()?;
        if let Some(log) = self.shared_log.get() {
            self.prepare(&[&change])?;
            return self.commit_queue.commit(change, |changes| self.commit_to_shared(&**log, changes));
        }

        // One thread at a time calls `commit_group`, with all changes that wait (`group.rs`).
        let commit = |change| self.commit_queue.commit(change, |changes| self.commit_group(changes));
        match change.brings_bytes() {
            true => self.reserve.run_without(|| commit(change)),
            false => self.reserve.run_with(|| commit(change.clone())),
        }
    }

    /// Carries out independent changes in one transaction, and returns the result of each.
    pub fn commit_many(&self, changes: &[Change]) -> Result<Vec<Result<Commit>>> {
        if let Some(log) = self.shared_log.get() {
            self.env()?;
            let changes: Vec<&Change> = changes.iter().collect();
            self.prepare(&changes)?;
            return self.commit_to_shared(&**log, &changes);
        }
        let commit = || self.commit_group(&changes.iter().collect::<Vec<_>>());
        match changes.iter().any(Change::brings_bytes) {
            true => self.reserve.run_without(commit),
            false => self.reserve.run_with(commit),
        }
    }

    fn commit_group(&self, changes: &[&Change]) -> Result<Vec<Result<Commit>>> {
        thread_local! {
            static COMMIT_BUFFERS: RefCell<Buffers> = RefCell::default();
        }
        self.wait_until_changes_may_begin();
        COMMIT_BUFFERS.with_borrow_mut(|Buffers { edits, commits, record }| {
            // The edits are encoded before LMDB's write lock is taken, because all processes wait for it.
            edits.clear();
            let mut ends = Vec::with_capacity(changes.len());
            for change in changes {
                let taken = std::mem::take(edits);
                *edits = postcard::to_extend(&change.edits, taken).map_err(|e| Error::Lmdb(e.to_string()))?;
                ends.push(edits.len());
            }
            commits.clear();
            let time = unix_seconds();
            let env = self.env()?;
            if self.commit_flag.is_set() {
                prefetch_records(&env, changes)?;
                self.commit_flag.spin_while_set();
            }
            let mut txn = env.write_txn()?;
            let _running = self.commit_flag.set();
            let tail = self.tail_in(&env, &txn)?;
            let mut applier = Applier::new(env.records, &mut txn, tail.sequence, time);
            let mut results = Vec::with_capacity(changes.len());
            let (mut count, mut start) = (0, 0);
            for (change, end) in changes.iter().zip(ends) {
                let encoded = &edits[start..end];
                start = end;
                if let Err(e) = applier.check(change) {
                    results.push(Err(e));
                    continue;
                }
                applier.begin(applier.sequence + 1, &change.edits);
                count += 1;
                for edit in &change.edits {
                    applier.apply(edit)?;
                }
                commits.extend_from_slice(encoded);
                results.push(Ok(Commit { sequence: applier.sequence }));
            }
            applier.finish()?;
            if count > 0 {
                let tail = self.log.append(tail, time, count, commits, record)?;
                counts::put_tail(&env, &mut txn, &tail)?;
                terrace_system::fail::point("commit:logged");
                self.environment.commit(txn)?;
            }
            Ok(results)
        })
    }

    /// Brings the catalog up to the end of its log. For each commit, `check` gets the indexes of the edits that are void, and
    /// adds those that cannot be carried out. The log records the added ones, because they must stay void.
    pub fn replay(&self, void: &Voids, mut check: impl FnMut(u64, &[Edit], &mut Vec<u32>)) -> Result<Tail> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let start = self.tail_in(&env, &txn)?;
        let mut next_id = self.claimed(&env, &txn)?;
        let mut found: Vec<Edit> = Vec::new();
        let mut end = self.log.replay(start, |record| {
            let mut applier = Applier::new(env.records, &mut txn, record.first, record.time);
            for (sequence, edits) in (record.first..).zip(record.commits) {
                let mut gone = void.get(&sequence).cloned().unwrap_or_default();
                let known = gone.len();
                check(sequence, &edits, &mut gone);
                applier.begin(sequence, &edits);
                for (place, edit) in (0..).zip(&edits) {
                    next_id = next_id.max(highest_id(edit) + 1);
                    match gone.contains(&place) {
                        true => applier.skip(edit)?,
                        false => applier.apply(edit)?,
                    }
                }
                if gone.len() > known {
                    found.push(Edit::Void { sequence, edits: gone.split_off(known) });
                }
            }
            applier.finish()
        })?;
        if !found.is_empty() {
            end = self.log.append(end, unix_seconds(), 1, &encode(&found)?, &mut Vec::new())?;
        }
        counts::put_tail(&env, &mut txn, &end)?;
        if end.sequence > 0 {
            // Skips the blocks of numbers that processes claimed and did not use in any commit: the log does not know them.
            let next_id = next_id + 1024 * ID_BLOCK;
            env.records.put(&mut txn, keys::NEXT_ID, &encode(&next_id)?)?;
            env.records.put(&mut txn, keys::OLDEST_SEGMENT_KEY, &encode(&next_id)?)?;
        }
        self.environment.commit(txn)?;
        Ok(end)
    }

    /// Continues the log in a new file after commit `sequence`. Before it there is only a snapshot, which the caller makes in the end.
    pub fn jump_to(&self, sequence: u64) -> Result<()> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let tail = self.tail_in(&env, &txn)?;
        let tail = Tail { sequence, file: sequence + 1, position: 0, ..tail };
        counts::put_tail(&env, &mut txn, &tail)?;
        self.environment.commit(txn)
    }

    fn claimed(&self, env: &Environment, txn: &heed::RoTxn<'_>) -> Result<u64> {
        let value = env.records.get(txn, keys::NEXT_ID)?;
        Ok(value.map(|v| decode(v, "the next id")).transpose()?.unwrap_or(1))
    }

    /// Returns whether nothing was ever committed to or replayed into this catalog.
    pub fn is_new(&self) -> Result<bool> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        Ok(env.records.get(&txn, keys::TAIL_KEY)?.is_none())
    }

    /// Makes the catalog itself durable. This is never needed, but it spares a rebuild after a reboot.
    pub fn force_sync(&self) -> Result<()> {
        // The store writes the mark `clean` only after this: a clean catalog is trusted after a reboot.
        Ok(self.env()?.force_sync()?)
    }

    /// Gives out a new number for an object, a write or a segment.
    pub fn next_id(&self) -> Result<u64> {
        let mut ids = self.ids.lock();
        if ids.0 == ids.1 {
            let first = match self.shared_log.get() {
                Some(log) => log.claim_numbers(ID_BLOCK)?,
                None => self.reserve.run_with(|| self.claim_ids())?,
            };
            *ids = (first, first + ID_BLOCK);
        }
        ids.0 += 1;
        Ok(ids.0 - 1)
    }

    fn claim_ids(&self) -> Result<u64> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let first = self.claimed(&env, &txn)?;
        env.records.put(&mut txn, keys::NEXT_ID, &encode(&(first + ID_BLOCK))?)?;
        self.environment.commit(txn)?;
        Ok(first)
    }

    /// Ensures that no number up to `highest` is given out, and that no segment with such a number is appended to.
    pub fn pass_ids(&self, highest: u64) -> Result<()> {
        self.give_out_from(|next_id| next_id.max(highest + 1024 * ID_BLOCK))
    }

    /// Leaves out the next `count` numbers, and appends to no segment that exists. Call it before numbers are given out.
    pub fn skip_ids(&self, count: u64) -> Result<()> {
        self.give_out_from(|next_id| next_id + count)
    }

    /// Changes the next number. Segments with lower numbers are not appended to.
    fn give_out_from(&self, change: impl FnOnce(u64) -> u64) -> Result<()> {
        let env = self.env()?;
        let mut ids = self.ids.lock();
        let mut txn = env.write_txn()?;
        let next_id = change(self.claimed(&env, &txn)?);
        env.records.put(&mut txn, keys::NEXT_ID, &encode(&next_id)?)?;
        env.records.put(&mut txn, keys::OLDEST_SEGMENT_KEY, &encode(&next_id)?)?;
        self.environment.commit(txn)?;
        *ids = (0, 0);
        Ok(())
    }

    fn tail_in(&self, env: &Environment, txn: &heed::RoTxn<'_>) -> Result<Tail> {
        let value = env.records.get(txn, keys::TAIL_KEY)?;
        Ok(value.map(|v| decode(v, "the log's tail")).transpose()?.unwrap_or(Tail { file: 1, ..Tail::default() }))
    }
}

impl terrace_format::Ids for Catalog {
    fn next(&self) -> std::io::Result<u64> {
        self.next_id().map_err(|e| std::io::Error::other(e.to_string()))
    }

    fn last_commit(&self) -> u64 {
        // A new catalog is about to be filled from the log, and a shared one may be behind its log.
        let tail = if self.is_shared() { None } else { self.tail().ok().filter(|tail| tail.sequence > 0) };
        tail.map_or(u64::MAX, |tail| tail.sequence)
    }

    fn continues(&self, record: (u64, u64)) -> bool {
        // A log that cannot be read tells nothing.
        self.is_shared() || self.log().continues(record).unwrap_or(true)
    }

    fn named_end(&self, target: TargetId, segment: u64) -> std::io::Result<u64> {
        let known = self.segment(target, segment).map_err(|e| std::io::Error::other(e.to_string()))?;
        Ok(known.map_or(0, |live| live.end))
    }

    fn named_frames(&self, target: TargetId, segment: u64) -> std::io::Result<u64> {
        let known = self.segment(target, segment).map_err(|e| std::io::Error::other(e.to_string()))?;
        Ok(known.map_or(0, |live| live.frames))
    }

    fn oldest(&self) -> u64 {
        let read = || -> Result<u64> {
            let env = self.env()?;
            let txn = env.read_txn()?;
            let value = env.records.get(&txn, keys::OLDEST_SEGMENT_KEY)?;
            value.map_or(Ok(0), |value| decode(value, "the oldest segment that is added to"))
        };
        // If the record cannot be read, no existing segment is appended to, which is always safe.
        *self.oldest_segment.get_or_init(|| read().unwrap_or(u64::MAX))
    }
}

/// Reads the records that the changes will read, so that they are in the processor's caches under the write lock.
fn prefetch_records(env: &Environment, changes: &[&Change]) -> Result<()> {
    let txn = env.read_txn()?;
    for expect in changes.iter().flat_map(|change| &change.expect) {
        if let Expect::Generation(key, _) | Expect::Length(key, _) | Expect::Free(key) = expect {
            env.records.get_greater_than_or_equal_to(&txn, &keys::object(key))?;
        }
    }
    Ok(())
}

fn highest_id(edit: &Edit) -> u64 {
    let number = |replica: &Replica| replica.place.segment & !terrace_format::PLAIN_SEGMENT_BIT;
    let of = |extents: &[NewExtent]| {
        extents.iter().flat_map(|n| n.extent.replicas.iter().map(number).chain([n.extent.write])).max().unwrap_or(0)
    };
    match edit {
        Edit::Stage { object, extents, .. }
        | Edit::Put { object, extents, .. }
        | Edit::Write { object, extents, .. }
        | Edit::Merge { object, extents, .. } => of(extents).max(*object),
        Edit::Share { object, extents, .. } => {
            let sources = extents.iter().filter_map(|new| new.extent.source).map(|source| source.object);
            of(extents).max(*object).max(sources.max().unwrap_or(0))
        }
        Edit::Made { replica, .. } => number(replica),
        _ => 0,
    }
}

fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|e| Error::Lmdb(e.to_string()))
}

fn decode<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| Error::Damaged { what: what.into(), reason: e.to_string() })
}
