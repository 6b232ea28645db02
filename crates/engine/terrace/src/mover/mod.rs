//! The mover makes pending replicas, repairs bad ones, and frees garbage.
//!
//! Pending replicas are a set in the catalog. The commit that registers a replica deletes its task. Each process has one
//! background thread for this, started when its first replica becomes pending. One process at a time holds the mover's lock,
//! and also makes replicas that dead processes have left. Large sets go through the pipeline of `terrace-pipeline`
//! (`flow.rs`).

mod away;
mod beside;
mod claimed;
mod compact;
mod displace;
mod drain;
mod drops;
mod edits;
mod evict;
mod eviction;
pub(crate) mod expiry;
mod flow;
mod leaving;
mod make;
mod moves;
mod plain;
mod promote;
mod reap;
mod redirect;
mod registrations;
mod repair;
mod replan;
mod request;
mod room;
pub(crate) mod rules;
mod save;
mod stuck;
mod uncache;
pub(crate) mod unplanned;
mod wait;

pub(crate) use beside::silent_targets;
pub(crate) use plain::{Naming, PlainNames};
pub(crate) use reap::{GRACE_PERIOD, Reaper};
pub(crate) use repair::Repair;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};
use terrace_catalog::{Catalog, Extent, TargetId, Task};
use terrace_codec::Encoding;
use terrace_plan::policy::Policy;

use crate::Result;
use crate::config::Config;
use crate::devices::Tiers;
use crate::home::{Locks, ScrubRecord};
use crate::journal::Journal;
use crate::place::Planning;
use crate::read::Reader;
use crate::report::Lacking;
use crate::write::Writer;

/// The number of pending replicas that are read at a time.
const OWED_PER_READ: usize = 16;
/// The number of objects whose policies are remembered, and of replicas whose encodings are.
const MAX_REMEMBERED_WISHES: usize = 4096;
/// The pause of the background thread when there is nothing to do, or when an error occurred.
const REST_TIME: Duration = Duration::from_millis(500);
/// The background thread makes commits durable at this interval, so a power cut destroys about the last commits of this
/// time.
const MARK_INTERVAL: Duration = Duration::from_secs(3);
/// The number of expired objects that one round removes. More would delay pending replicas.
const MAX_EXPIRED_PER_ROUND: usize = 1000;
/// The time that `Store::wait` waits for replicas that cannot be made now.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(30);

/// Makes pending replicas, moves replicas between tiers, repairs bad ones, and frees space.
pub(crate) struct Mover {
    pub catalog: Arc<Catalog>,
    pub tiers: Arc<Tiers>,
    pub reader: Arc<Reader>,
    pub planning: Arc<Planning>,
    pub writer: Arc<Writer>,
    pub journal: Arc<Journal>,
    pub locks: Arc<Locks>,
    pub names: Arc<PlainNames>,
    pub reaper: Arc<Reaper>,
    pub state: State,
}

/// The mover's state in this process.
///
/// Lock order: `repairing` is held during whole rounds of work, with I/O and commits, and is taken while no other lock of this struct is held. So are `marked`, `told` and `promoted`, by the background thread only. The others come last,
/// and are held for a lookup or an update; `encodings` also while a missing encoding is chosen.
#[derive(Default)]
pub(crate) struct State {
    /// The tasks that threads of this process work on, so that no two make the same replica.
    claimed: Mutex<HashSet<Task>>,
    registrations: registrations::Registrations,
    /// Held while suspects are repaired: a caller that waits for it knows that earlier repairs are done.
    repairing: Mutex<()>,
    /// The number of repaired replicas that were not reported yet. Relaxed: a mere count.
    repaired: AtomicU64,
    /// The same of those in adopted files that their owners had changed.
    detached: AtomicU64,
    /// Extents that this process has left with fewer replicas than they are to have, and that are not in the record of scrubs yet.
    lacking: Mutex<Lacking>,
    /// The time of the background thread's last report of repairs.
    told: Mutex<Option<Instant>>,
    /// The policies of single writes with pending replicas. Another process that makes these replicas uses the rules
    /// instead.
    wishes: Mutex<HashMap<u64, Policy>>,
    /// The time before which the background thread leaves a long list of objects to be planned alone. Only that thread takes it.
    next_following: Mutex<Option<Instant>>,
    /// The rules that all objects follow, if this is known.
    followed: Mutex<Option<Arc<Config>>>,
    /// The rules by which this process plans objects, once the note of the rules tells them.
    noted: Mutex<Option<Arc<Config>>>,
    /// Nodes of a shared store that are away. Only the background thread takes it.
    away: Mutex<away::AwayNodes>,
    /// The encodings planned for pending replicas. Another process that makes these replicas chooses encodings itself.
    encodings: Mutex<HashMap<Task, Encoding>>,
    /// The background thread. Held while it is started, and while it is joined: the thread itself never takes this lock,
    /// because `started` is set by then.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Set once, before the thread is woken and joined. Release and acquire, though the thread acts on nothing else: the join
    /// orders the rest.
    stopping: AtomicBool,
    /// Set by the first call of `start`, which alone starts the thread.
    started: AtomicBool,
    /// The time of this process's last sync mark.
    marked: Mutex<Option<Instant>>,
    compaction: compact::Compaction,
    /// A leaf, held for a look or a change, and not during a search.
    searches: Mutex<leaving::Searches>,
    /// Held by the writer that frees garbage in memory.
    freeing: Mutex<()>,
    /// The time at which a write last failed to get space.
    found_full: Mutex<Option<Instant>>,
    /// The time of the last search for bytes worth promoting.
    promoted: Mutex<Option<Instant>>,
    wake: Condvar,
    /// Held by the background thread from its check of `stopping` until it waits. `stop` takes it after it has set `stopping`, so
    /// its signal does not fall between the two.
    asleep: Mutex<()>,
}

impl Mover {
    /// Remembers the policy of one write.
    pub fn remember(&self, object: u64, wish: Policy) {
        let mut wishes = self.state.wishes.lock();
        if wishes.len() >= MAX_REMEMBERED_WISHES {
            wishes.clear();
        }
        wishes.insert(object, wish);
    }

    /// Remembers the encoding that was planned for a pending replica.
    fn encode_as(&self, task: Task, encoding: Encoding) {
        let mut encodings = self.state.encodings.lock();
        if encodings.len() >= MAX_REMEMBERED_WISHES {
            encodings.clear();
        }
        encodings.insert(task, encoding);
    }

    /// Counts extents that are left with fewer replicas than they are to have.
    pub fn count_lacking(&self, lacking: Lacking) {
        if lacking != Lacking::default() {
            *self.state.lacking.lock() += lacking; // a leaf, held for the addition
        }
    }

    /// Notes these extents, so that all processes know of them. Not at each write: the file is synced.
    pub fn note_lacking(&self) {
        // A leaf, held while the file is replaced: a second thread would replace what the first one has noted.
        let mut counted = self.state.lacking.lock();
        match ScrubRecord::note_lacking(&self.journal.dir, *counted) {
            Ok(()) => *counted = Lacking::default(),
            // The next round, or the end of the process, notes them.
            Err(error) => tracing::debug!(%error, "extents with too few replicas could not be noted"),
        }
    }

    /// Notes extents that the next commit leaves with fewer replicas than they are to have. Before that commit: nobody else would tell of them
    /// if the process was killed after it. If it is killed before, the next scrub takes the note back.
    fn note_will_lack(&self, lacking: Lacking) {
        if lacking != Lacking::default() {
            self.count_lacking(lacking);
            self.note_lacking();
        }
    }

    /// Returns the targets that hold a replica of an extent or are owed one, each once: part of a plain file is both.
    pub fn targets_of(&self, object: u64, extent: &Extent) -> Result<Vec<TargetId>> {
        let held = extent.replicas.iter().map(|replica| replica.target);
        Ok(held.chain(self.owed_beside(object, extent)?).collect())
    }

    /// Returns the targets that are owed a replica of an extent and hold none.
    pub fn owed_beside(&self, object: u64, extent: &Extent) -> Result<Vec<TargetId>> {
        let mut owed = self.catalog.owed_to(&extent.task(object, 0))?;
        owed.retain(|target| extent.replicas.iter().all(|held| held.target != *target));
        Ok(owed)
    }

    /// Ends the background thread after its current task.
    pub fn stop(&self) {
        self.state.stopping.store(true, Ordering::Release);
        drop(self.state.asleep.lock());
        self.state.wake.notify_all();
        // Held while the thread ends: see `State::thread`.
        if let Some(thread) = self.state.thread.lock().take() {
            // A panic of the thread has been printed, and there is nothing more to do about it.
            let _ = thread.join();
        }
    }

    /// Drops kept bytes if another process has made their replicas, or no replica needs them any more.
    fn forget_made(&self) {
        for task in self.writer.kept.old() {
            if self.catalog.owed_to(&task).is_ok_and(|targets| targets.is_empty()) {
                self.writer.kept.forget(&task);
            }
        }
    }

    /// Forgets the thread in a forked process, which has none.
    pub fn forget(&self) {
        if let Some(mut thread) = self.state.thread.try_lock() {
            std::mem::forget(thread.take());
        }
    }

    fn rest(&self, time: Duration) {
        // Checked under the lock: see `State::asleep`.
        let asleep = self.state.asleep.lock();
        if !self.state.stopping.load(Ordering::Acquire) {
            drop(self.state.wake.wait_timeout(asleep, time));
        }
    }
}

impl Mover {
    /// Starts the background thread if it is not running. Otherwise wakes it if a replica is `owed`.
    pub fn start(self: &Arc<Self>, owed: bool) {
        if self.state.started.swap(true, Ordering::AcqRel) {
            if owed {
                self.state.wake.notify_all();
            }
            return;
        }
        // See `State::thread`.
        let mut thread = self.state.thread.lock();
        if thread.is_none() {
            let mover = Arc::downgrade(self);
            let started = std::thread::Builder::new().name("terrace-mover".into()).spawn(move || {
                // A weak reference, so that the thread does not keep the store open.
                while let Some(mover) = mover.upgrade() {
                    if mover.state.stopping.load(Ordering::Acquire) {
                        return;
                    }
                    let moved = mover.move_some();
                    if let Err(error) = &moved {
                        tracing::debug!(%error, "the background work failed and is tried again");
                    }
                    if !matches!(moved, Ok(n) if n > 0) {
                        mover.rest(REST_TIME);
                    }
                }
            });
            // Without the thread, replicas stay pending until `wait`, `sync` or another process makes them.
            *thread = started.ok();
        }
    }

    /// Makes the plain files of truncated objects again, because a truncation writes no bytes.
    pub fn follow_cut(self: &Arc<Self>) {
        if self.names.is_any() {
            self.start(true);
            self.names.try_update_all();
        }
    }

    /// One round of the background thread.
    fn move_some(&self) -> Result<usize> {
        self.planning.rules.renew();
        self.note_rules(&self.planning.rules.now())?;
        self.tiers.heed_nodes(&self.catalog)?;
        self.planning.hotness.fold_in_time();
        self.forget_made();
        let mut done = self.repair_suspects()? + self.follow_some_policies()?;
        self.tell_repaired_in_time();
        self.note_lacking();
        let Some(_lock) = self.locks.mover_at_once()? else { return Ok(done) };
        // Removed before eviction, which then sees the space that they took.
        let expired = if self.locks.may_move_all() { self.remove_expired(MAX_EXPIRED_PER_ROUND) } else { Ok(0) };
        let moved = self.move_alone();
        // Done even after an error, so that a power cut destroys only recent commits, and space is freed.
        self.mark_in_time()?;
        self.reaper.reap(GRACE_PERIOD)?;
        self.journal.snapshot_if_due()?;
        done += expired? + moved?;
        Ok(done)
    }

    /// The work that only one process at a time does.
    fn move_alone(&self) -> Result<usize> {
        let done = self.make_own()?;
        if !self.locks.may_move_all() {
            return self.evict().map(|()| done);
        }
        let done = done + self.follow_rules()? + self.rebuild_away()?;
        self.names.update_all()?;
        self.evict()?;
        self.uncache_for_unkept()?;
        self.promote_in_time()?;
        self.compact_in_time()?;
        Ok(done)
    }

    /// Makes a sync mark if the last one is old. This limits the commits that a power cut can destroy.
    fn mark_in_time(&self) -> Result<()> {
        let mut marked = self.state.marked.lock();
        if marked.is_none_or(|at| at.elapsed() > MARK_INTERVAL) {
            if !self.catalog.is_shared() && self.catalog.synced()? + 1 < self.catalog.tail()?.sequence {
                self.journal.mark_synced()?;
            } else {
                // A service that was away may lack the last ones.
                self.journal.copy_to_services();
            }
            *marked = Some(Instant::now());
        }
        Ok(())
    }
}
