//! The mover: makes owed replicas, repairs what reads found bad, gives dead space back.
//!
//! Owed work is a set in the catalog; a task is done when the commit that registers its replica deletes it. One
//! thread of each process does it, started when something is first owed; of all processes one holds the mover's
//! lock and also adopts what dead ones left.

mod compact;
mod plain;
mod promote;
mod replan;
mod request;
mod room;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::FlockOperation;
use terrace_codec::Encoding;
use terrace_plan::policy::Policy as Wanted;

use crate::catalog::{Change, Edit, Expect, Extent, Owed, TargetId, Task};
use crate::config::Ack;
use crate::frame::Identity;
use crate::place::{Placer, policy};
use crate::read::{Suspect, read_replica};
use crate::report::TierState;
use crate::store::{Inner, Store};
use crate::write::{PutOptions, Receipt, element_of};
use crate::{Error, Result};

/// Replicas registered by one commit.
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
    /// What was wished for with single objects that are owed replicas. Whoever adopts them goes by the rules.
    wishes: Mutex<HashMap<u64, Wanted>>,
    /// Objects that other rules hold for since they were renamed, and their keys before.
    renamed: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    /// How replicas were planned to be encoded when they were owed. Whoever adopts them chooses.
    encodings: Mutex<HashMap<Task, Encoding>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stopping: AtomicBool,
    started: AtomicBool,
    /// When this process last marked what is durable.
    marked: Mutex<Option<Instant>>,
    compaction: compact::Compaction,
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
        let mut asleep = self.asleep.lock();
        if !self.stopping.load(Ordering::Acquire) {
            self.wake.wait_for(&mut asleep, time);
        }
    }
}

/// Tasks that a thread works on, until it is dropped.
struct Claimed<'a> {
    mover: &'a Mover,
    tasks: Vec<Task>,
}

impl Claimed<'_> {
    /// False where another thread of this process works on it.
    fn claim(&mut self, task: Task) -> bool {
        let free = self.mover.claimed.lock().insert(task);
        if free {
            self.tasks.push(task);
        }
        free
    }

    /// False where another thread of this process works on another replica of the same frame.
    fn claim_frame(&mut self, task: Task) -> bool {
        let frame = Task { target: TargetId::MAX, ..task };
        self.tasks.contains(&frame) || self.claim(frame)
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let mut claimed = self.mover.claimed.lock();
        self.tasks.iter().for_each(|task| {
            claimed.remove(task);
        });
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
                    if !matches!(moved, Ok(n) if n > 0) {
                        inner.mover.rest(REST);
                    }
                }
            });
            // Without a thread the work stays owed: `wait`, `sync` and the next process do it.
            *thread = started.ok();
        }
    }

    /// Waits until a write has reached `ack`; this thread does what of it is owed.
    ///
    /// # Errors
    /// [`Error::StillOwed`] where that cannot be done within 30 seconds without progress.
    pub fn wait(&self, receipt: &mut Receipt, ack: Ack) -> Result<()> {
        // A range is durable only with what it was laid over, as after `fsync` of a file.
        if ack == Ack::Durable || ack == Ack::Replicated && receipt.owed > 0 {
            self.inner.finish(Some(receipt.object), WAIT, &mut |_| {})?;
            receipt.owed = 0;
            receipt.owed_to.clear();
            receipt.have = receipt.want;
        }
        match ack {
            Ack::Placed => Ok(()),
            Ack::Replicated => self.inner.copy_log(false),
            Ack::Durable => {
                self.inner.sync_files()?;
                receipt.durable = true;
                Ok(())
            }
        }
    }

    /// Makes what one object is owed, and all that was committed durable.
    pub(crate) fn sync_object(&self, object: u64) -> Result<()> {
        self.inner.finish(Some(object), WAIT, &mut |_| {})?;
        self.inner.sync_files()
    }

    /// Makes what an object is owed, and all that was committed durable: nothing of the object is lost with the power then.
    pub fn make_durable(&self, key: &[u8]) -> Result<()> {
        self.sync_object(self.stat(key)?.id)
    }

    /// Makes durable what was committed and lies on persistent targets. Nothing that is owed is made.
    pub fn sync_placed(&self) -> Result<()> {
        self.inner.sync_files()
    }

    /// Makes everything that is owed, calling `progress` with what is left, then makes all durable.
    pub fn sync_with(&self, mut progress: impl FnMut(u64)) -> Result<()> {
        self.replan_renamed()?;
        if let Some(_lock) = self.inner.mover_lock()? {
            while self.inner.follow_rules()? > 0 {}
        }
        self.inner.follow_all()?;
        self.inner.finish(None, WAIT, &mut progress)?;
        self.inner.mark_synced()?;
        self.inner.reap(room::GRACE)?;
        match self.inner.mover_lock()? {
            Some(_lock) => self.inner.snapshot_if_due(),
            None => Ok(()),
        }
    }

    /// Waits until nothing is owed, then makes all durable.
    pub fn sync(&self) -> Result<()> {
        self.sync_with(|_| {})
    }

    pub(crate) fn sync_within(&self, limit: Duration) -> Result<()> {
        self.inner.finish(None, limit, &mut |_| {})?;
        self.inner.mark_synced()
    }

    /// Gives back, now, all dead space that a sync covers: readers have had no grace.
    pub fn reap_now(&self) -> Result<()> {
        self.inner.reap(Duration::ZERO)
    }

    /// Repairs what reads of this process found bad; the number of replicas made anew.
    pub fn repair_suspects(&self) -> Result<u64> {
        self.inner.repair_suspects()
    }
}

impl Inner {
    /// One round of the background thread.
    fn move_some(&self) -> Result<usize> {
        self.hotness.fold_in_time();
        let mut done = self.repair_suspects()? as usize + self.follow_renames()?;
        let Some(_lock) = self.mover_lock()? else { return Ok(done) };
        let mut after = None;
        loop {
            let tasks = self.catalog.owed(after.as_ref(), BATCH)?;
            let Some((last, _)) = tasks.last() else { break };
            after = Some(*last);
            done += self.make(&tasks, false)?;
            if self.mover.stopping.load(Ordering::Acquire) {
                break;
            }
        }
        done += self.follow_rules()?;
        self.follow_all()?;
        self.evict()?;
        self.promote_in_time()?;
        self.compact_in_time()?;
        self.mark_in_time()?;
        self.reap(room::GRACE)?;
        self.snapshot_if_due()?;
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

    /// The lock that one mover of all processes holds; none if another has it.
    pub(crate) fn mover_lock(&self) -> Result<Option<File>> {
        self.lock_at_once("mover")
    }

    /// The same, once no other has it.
    pub(crate) fn wait_for_mover_lock(&self) -> Result<File> {
        let file = self.lock_file("mover")?;
        let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive));
        locked.map_err(|e| Error::io("waiting for the mover's lock")(e.into()))?;
        Ok(file)
    }

    /// A lock by this name on what all processes share; none if another has it.
    fn lock_at_once(&self, name: &str) -> Result<Option<File>> {
        let file = self.lock_file(name)?;
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(locked.is_ok().then_some(file))
    }

    fn lock_file(&self, name: &str) -> Result<File> {
        let path = self.dir.join(name);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        file.map_err(Error::io(format!("opening {}", path.display())))
    }

    /// Makes what an object, or everything, is owed, until nothing is or nothing has moved for `limit`.
    pub(crate) fn finish(&self, object: Option<u64>, limit: Duration, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut moved = Instant::now();
        loop {
            let mut after = object.map(|object| Task { object, frame_offset: 0, write: 0, target: 0 });
            loop {
                let mut tasks = self.catalog.owed(after.as_ref(), BATCH)?;
                tasks.retain(|(task, _)| object.is_none_or(|o| task.object == o));
                let Some((last, _)) = tasks.last() else { break };
                after = Some(*last);
                if self.make(&tasks, true)? > 0 {
                    moved = Instant::now();
                }
                if object.is_none() {
                    progress(self.catalog.owed_count(None)?);
                }
            }
            let owed = self.catalog.owed_count(object)?;
            progress(owed);
            if owed == 0 {
                return Ok(());
            }
            if moved.elapsed() > limit {
                return Err(Error::StillOwed { owed, seconds: limit.as_secs() });
            }
            if self.tiers.devices.iter().any(|device| device.state() == TierState::Full) {
                self.clear()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes these owed replicas, as far as their targets allow; how many are no longer owed. What is being written to is
    /// made a plain file once it is left alone, unless that is to be `at_once`.
    fn make(&self, tasks: &[(Task, Owed)], at_once: bool) -> Result<usize> {
        let mut claimed = Claimed { mover: &self.mover, tasks: Vec::new() };
        let mut changes = Vec::new();
        let mut done = 0;
        for (task, owed) in tasks {
            if !claimed.claim(*task) {
                continue;
            }
            let placer = self.placer_for(task.object, &owed.key);
            if placer.has_budget() {
                // What a budget has left depends on each replica of the extent: they are made one after the other.
                done += self.register(&mut changes)?;
                if !claimed.claim_frame(*task) {
                    continue;
                }
            }
            let Some(extent) = self.catalog.frame(task, &owed.key)? else {
                done += self.forgive(task, &owed.key)?;
                continue;
            };
            let device = self.tiers.device(task.target)?;
            if device.state() == TierState::Ok
                && self.config.is_plain(device.tier, &owed.key)
                && let Some(made) = self.make_plain(device, task.object, &owed.key, at_once)?
            {
                done += made;
                continue;
            }
            if let Some(edits) = self.make_one(task, owed, &extent, &placer)? {
                changes.push(Change { expect: Vec::new(), edits });
            }
            if self.mover.stopping.load(Ordering::Acquire) {
                break;
            }
        }
        Ok(done + self.register(&mut changes)?)
    }

    /// Commits what was made; how many changes these are.
    fn register(&self, changes: &mut Vec<Change>) -> Result<usize> {
        crate::fail::point("mover:copied");
        let changes = std::mem::take(changes);
        if !changes.is_empty() {
            self.catalog.commit_many(&changes)?.into_iter().try_for_each(|result| result.map(|_| ()))?;
        }
        crate::fail::point("mover:committed");
        Ok(changes.len())
    }

    /// Owes no longer what belongs to no extent, unless its object has just been renamed.
    fn forgive(&self, task: &Task, key: &[u8]) -> Result<usize> {
        let expect = vec![Expect::Owed(*task, key.to_vec())];
        match self.catalog.commit(Change { expect, edits: vec![Edit::Forgive { task: *task }] }) {
            Ok(_) => Ok(1),
            Err(Error::Conflict { .. }) => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// Makes one owed replica: the edits that register it, or none where it cannot be made now.
    fn make_one(&self, task: &Task, owed: &Owed, extent: &Extent, placer: &Placer<'_>) -> Result<Option<Vec<Edit>>> {
        let device = self.tiers.device(task.target)?;
        match device.state() {
            TierState::Ok => {}
            TierState::Full | TierState::ReadOnly if extent.replicas.iter().any(|r| r.target == task.target) => {
                // It was to be compacted; what is there stays where it is.
                return Ok(Some(vec![Edit::Forgive { task: *task }]));
            }
            TierState::Full | TierState::ReadOnly => return self.owe_elsewhere(task, owed, extent),
            TierState::Away => return Ok(None),
        }
        let Some(raw) = self.read_frame(task.object, extent) else { return Ok(None) };
        let replica = extent.replicas.len() as u8;
        let identity = Identity { object: task.object, write: task.write, offset: task.frame_offset, replica };
        let more = owed.then_drop.is_none() && extent.replicas.iter().all(|r| r.target != task.target);
        let densest = extent.replicas.iter().map(|r| r.stored).min().unwrap_or(0);
        if more && !placer.affords(extent, densest) {
            // It turned out that fewer fit than were planned.
            return Ok(Some(vec![Edit::Forgive { task: *task }]));
        }
        let encoding = match self.mover.encodings.lock().get(task).copied() {
            Some(planned) => planned,
            None => placer.encoding(device, extent, &raw, self.catalog.owed_to(task)?.len()),
        };
        match placer.append(device, identity, encoding, &raw) {
            Ok(replica) => {
                let mut edits = vec![Edit::Made { task: *task, replica }];
                if more && !placer.affords(extent, replica.stored) {
                    // Registered only so that its place is given back.
                    let key = serde_bytes::ByteBuf::from(owed.key.clone());
                    edits.push(Edit::Lost { task: *task, key, place: replica.place, owed: None });
                }
                Ok(Some(edits))
            }
            Err(e) => {
                device.failed(&e);
                Ok(None)
            }
        }
    }

    /// Places replicas of an object as was wished for when it was written, or as the rules say.
    pub(crate) fn placer_for<'a>(&'a self, object: u64, key: &'a [u8]) -> Placer<'a> {
        let wish = self.mover.wishes.lock().get(&object).copied();
        let wanted = wish.unwrap_or_else(|| policy(self, key, &PutOptions::default()).wanted);
        Placer::new(self, key, element_of(key), wanted)
    }

    /// Owes a replica, which its target does not take, to another one, if there is one.
    fn owe_elsewhere(&self, task: &Task, owed: &Owed, extent: &Extent) -> Result<Option<Vec<Edit>>> {
        let others = self.catalog.owed_to(task)?.into_iter().filter(|target| *target != task.target);
        let chosen: Vec<TargetId> = extent.replicas.iter().map(|r| r.target).chain(others).collect();
        let places = self.placer_for(task.object, &owed.key).place_more(extent.raw_len as usize, 1, &chosen);
        let Some(target) = places.first().map(|placed| placed.target) else { return Ok(None) };
        let key = serde_bytes::ByteBuf::from(owed.key.clone());
        let owe = Edit::Owe { task: Task { target, ..*task }, key, raw_len: owed.raw_len, then_drop: owed.then_drop };
        Ok(Some(vec![Edit::Forgive { task: *task }, owe]))
    }

    /// The whole frame's raw bytes, from any good replica.
    pub(crate) fn read_frame(&self, object: u64, extent: &Extent) -> Option<Vec<u8>> {
        let mut raw = vec![0; extent.raw_len as usize];
        extent
            .replicas
            .iter()
            .any(|replica| {
                let Ok(device) = self.tiers.device(replica.target) else { return false };
                read_replica(self, device, object, extent, replica, 0, &mut raw).is_ok()
            })
            .then_some(raw)
    }

    /// Takes the replicas that reads found bad off their extents, and makes them anew.
    pub(crate) fn repair_suspects(&self) -> Result<u64> {
        // When this returns, what another thread is just repairing is repaired, too.
        let _one_at_a_time = self.mover.repairing.lock();
        let suspects = std::mem::take(&mut *self.mover.suspects.lock());
        let mut repaired = 0;
        for suspect in suspects {
            repaired += u64::from(self.repair(&suspect)?);
        }
        Ok(repaired)
    }

    /// Looks again at a bad replica; if it still is one and the catalog still names it, replaces it from a good one.
    /// False where there is none to replace it from.
    pub(crate) fn repair(&self, suspect: &Suspect) -> Result<bool> {
        let Suspect { key, task, replica } = suspect;
        let Some(extent) = self.catalog.frame(task, key)? else { return Ok(true) };
        if !extent.replicas.contains(replica) {
            return Ok(true);
        }
        let mut raw = vec![0; extent.raw_len as usize];
        let device = self.tiers.device(replica.target)?;
        if read_replica(self, device, task.object, &extent, replica, 0, &mut raw).is_ok() {
            return Ok(true);
        }
        let mut others = extent.clone();
        others.replicas.retain(|r| r != replica);
        if self.read_frame(task.object, &others).is_none() {
            return Ok(false);
        }
        tracing::warn!(key = %crate::key::show(key), offset = task.frame_offset, target = %device.path.display(), "a bad replica is made anew");
        let key = serde_bytes::ByteBuf::from(key.clone());
        self.catalog.commit(
            Edit::Lost { task: *task, key: key.clone(), place: replica.place, owed: Some(task.target) }.into(),
        )?;
        let owed = Owed { key: key.into_vec(), raw_len: extent.raw_len, then_drop: None, since: 0 };
        Ok(self.make(&[(*task, owed)], true)? > 0)
    }
}
