//! The mover: makes owed replicas, repairs what reads found bad, gives dead space back.
//!
//! Owed work is a set in the catalog; a task is done when the commit that registers its replica deletes it. One
//! thread of each process does it, started when something is first owed; of all processes one holds the mover's
//! lock and also adopts what dead ones left. Where much is owed it flows by `terrace-pipeline`'s pipeline (`flow.rs`).

mod claimed;
mod compact;
mod drops;
mod evict;
mod flow;
mod kept;
mod lock;
mod make;
mod plain;
mod promote;
mod repair;
pub(crate) use repair::Repair;
mod replan;
mod request;
mod room;
mod wait;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};
use terrace_catalog::Task;
use terrace_codec::Encoding;
use terrace_plan::policy::Policy as Wanted;

use crate::Result;
use crate::read::Suspect;
use crate::store::{Inner, Store};

/// Owed replicas that are looked up at once.
const BATCH: usize = 16;
/// Objects of which wishes, and replicas of which encodings are remembered.
const WISHES: usize = 4096;
/// How long the background thread rests when there is nothing to do or nothing works.
const REST: Duration = Duration::from_millis(500);
/// So much of what was written can be lost with the power, about: the background thread makes the rest durable.
const MARK_EVERY: Duration = Duration::from_secs(3);
/// How long [`Store::wait`] waits for replicas that cannot be made now.
const WAIT: Duration = Duration::from_secs(30);

/// The mover's state in one process.
#[derive(Default)]
pub(crate) struct Mover {
    /// Tasks that some thread of this process works on.
    claimed: Mutex<HashSet<Task>>,
    suspects: Mutex<Vec<Suspect>>,
    repairing: Mutex<()>,
    /// Replicas that were repaired and that no caller was told of yet.
    repaired: AtomicU64,
    /// When the background thread last told of them.
    told: Mutex<Option<Instant>>,
    /// What was wished for with single objects that are owed replicas. Whoever adopts them goes by the rules.
    wishes: Mutex<HashMap<u64, Wanted>>,
    /// Objects that another policy holds for since they were renamed or the rules changed, and the one before.
    unplanned: Mutex<Vec<(Vec<u8>, Wanted)>>,
    /// Held while these are planned anew.
    following: Mutex<()>,
    kept: kept::Kept,
    /// How replicas were planned to be encoded when they were owed. Whoever adopts them chooses.
    encodings: Mutex<HashMap<Task, Encoding>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stopping: AtomicBool,
    started: AtomicBool,
    /// When this process last marked what is durable.
    marked: Mutex<Option<Instant>>,
    compaction: compact::Compaction,
    /// When a write last waited for room in vain.
    found_full: Mutex<Option<Instant>>,
    /// When it was looked last for what is worth promoting.
    promoted: Mutex<Option<Instant>>,
    wake: Condvar,
    asleep: Mutex<()>,
}

impl Mover {
    /// Notes a replica to be repaired.
    pub fn suspect(&self, suspect: Suspect) {
        let mut suspects = self.suspects.lock();
        if !suspects.iter().any(|s| s.replica == suspect.replica) {
            suspects.push(suspect);
        }
    }

    /// Notes what is wished for with one object.
    pub fn remember(&self, object: u64, wish: Wanted) {
        let mut wishes = self.wishes.lock();
        if wishes.len() >= WISHES {
            wishes.clear();
        }
        wishes.insert(object, wish);
    }

    /// Notes how a replica that is to be owed was planned to be encoded.
    fn encode_as(&self, task: Task, encoding: Encoding) {
        let mut encodings = self.encodings.lock();
        if encodings.len() >= WISHES {
            encodings.clear();
        }
        encodings.insert(task, encoding);
    }

    /// Ends the background thread after the task that it is at.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        drop(self.asleep.lock());
        self.wake.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there has been printed; nothing is left to do about it.
            let _ = thread.join();
        }
    }

    /// In a fork there is no thread to end.
    pub fn forget(&self) {
        if let Some(mut thread) = self.thread.try_lock() {
            std::mem::forget(thread.take());
        }
    }

    fn rest(&self, time: Duration) {
        let asleep = self.asleep.lock();
        if !self.stopping.load(Ordering::Acquire) {
            drop(self.wake.wait_timeout(asleep, time));
        }
    }
}

impl Store {
    /// Sees that there is a background thread, and wakes it where something is `owed`.
    pub(crate) fn start_mover(&self, owed: bool) {
        let mover = &self.inner.mover;
        if mover.started.swap(true, Ordering::AcqRel) {
            if owed {
                mover.wake.notify_all();
            }
            return;
        }
        let mut thread = mover.thread.lock();
        if thread.is_none() {
            let inner = Arc::downgrade(&self.inner);
            let started = std::thread::Builder::new().name("terrace-mover".into()).spawn(move || {
                while let Some(inner) = inner.upgrade() {
                    if inner.mover.stopping.load(Ordering::Acquire) {
                        return;
                    }
                    let moved = inner.move_some();
                    if let Err(error) = &moved {
                        tracing::debug!(%error, "the mover tries again");
                    }
                    if !matches!(moved, Ok(n) if n > 0) {
                        inner.mover.rest(REST);
                    }
                }
            });
            // Without a thread the work stays owed: `wait`, `sync` and the next process do it.
            *thread = started.ok();
        }
    }
}

impl Inner {
    /// One round of the background thread.
    fn move_some(&self) -> Result<usize> {
        self.rules.renew();
        self.hotness.fold_in_time();
        self.forget_made();
        let mut done = self.repair_suspects()? + self.follow_policies()?;
        self.tell_repaired_in_time();
        let Some(_lock) = self.mover_lock()? else { return Ok(done) };
        let moved = self.move_alone();
        // Whatever fails, what a loss of power can take stays bounded, and space is given back.
        self.mark_in_time()?;
        self.reap(room::GRACE)?;
        self.snapshot_if_due()?;
        done += moved?;
        Ok(done)
    }

    /// What only one process does at a time.
    fn move_alone(&self) -> Result<usize> {
        let done = self.make_all(None, false)? + self.follow_rules()?;
        self.follow_all()?;
        self.evict()?;
        self.promote_in_time()?;
        self.compact_in_time()?;
        Ok(done)
    }

    /// Bounds what a loss of power can take.
    fn mark_in_time(&self) -> Result<()> {
        let mut marked = self.mover.marked.lock();
        if marked.is_none_or(|at| at.elapsed() > MARK_EVERY) {
            if self.catalog.synced()? + 1 < self.catalog.tail()?.sequence {
                self.mark_synced()?;
            }
            *marked = Some(Instant::now());
        }
        Ok(())
    }
}
