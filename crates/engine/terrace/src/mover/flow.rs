//! Makes pending replicas with the same pipeline as streams, so that each target works at its own speed.
//!
//! The source is the set of pending replicas. It has no position, because the commit that registers a replica deletes its
//! task, and a replica that cannot be made now stays pending. So the sink never reports that a target fails: the device
//! keeps track of that itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_catalog::{Owed, TargetId, Task};
use terrace_pipeline::{Ended, Failure, Figures, Move, Pulled, Settings, Sink, Source};

use super::Mover;
use super::claimed::Claimed;
use super::make::Made;
use super::{MARK_INTERVAL, OWED_PER_READ};
use crate::{Error, Result};

/// The approximate number of bytes of replicas that one commit registers.
const REGISTERED_BYTES_PER_COMMIT: usize = 4 << 20;
/// The least number of bytes that a replica counts as, which limits the number of replicas in one commit.
const MIN_REPLICA_WEIGHT_BYTES: usize = 64 << 10;
/// The bytes of replicas that wait for their targets. They take no memory until they are made.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// The number of targets that are written to at the same time.
const MAX_PARALLEL_TARGETS: usize = 8;
/// A pipeline starts threads only if writing takes at least this many seconds.
const MIN_PIPELINE_SECONDS: f64 = 0.005;
/// The number of pending replicas among which those of one node are searched for without a pipeline.
const OWED_PER_SCAN: usize = 256;
/// The time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// A replica to make.
struct ToMake(Task, Owed);

impl Move for ToMake {
    type Destination = TargetId;
    type Order = (u64, u64, u64);

    fn destination(&self) -> &TargetId {
        &self.0.target
    }

    fn order(&self) -> (u64, u64, u64) {
        (self.0.object, self.0.frame_offset, self.0.write)
    }

    fn weight(&self) -> usize {
        (self.1.raw_len as usize).max(MIN_REPLICA_WEIGHT_BYTES)
    }
}

/// The pending replicas of one object or of all, read once in order. The walk ends at `end`, because new ones may be added
/// all the time.
struct OwedSet<'a> {
    mover: &'a Mover,
    object: Option<u64>,
    /// Whether those on targets of other nodes are left out.
    is_own: bool,
    /// The last task that was pulled. Held while the next page is read, so that no task is pulled twice. Only catalog reads run
    /// under it.
    after: Mutex<Option<Task>>,
    end: Instant,
}

impl Source for OwedSet<'_> {
    type Move = ToMake;
    type Error = Error;

    fn pull(&self, _: usize) -> Result<Pulled<ToMake>> {
        // Acquire: see `State::stopping`.
        if self.mover.state.stopping.load(Ordering::Acquire) || Instant::now() > self.end {
            return Ok(Pulled::Stop);
        }
        let mut after = self.after.lock(); // see the field
        let mut tasks = self.mover.owed_next(self.object, *after)?;
        let Some((last, _)) = tasks.last() else { return Ok(Pulled::End) };
        *after = Some(*last);
        tasks.retain(|(task, _)| !self.is_own || self.mover.is_owed_here(task));
        Ok(Pulled::Moves(tasks.into_iter().map(|(task, owed)| ToMake(task, owed)).collect()))
    }

    fn wait(&self, _: Duration) {}

    fn finish(&self, _: Vec<ToMake>) -> Result<()> {
        Ok(())
    }

    fn again(&self, _: &TargetId) -> Result<()> {
        Ok(())
    }
}

/// A list of pending replicas. The lock is held for one removal from the list, so that each is pulled once.
struct Given(Mutex<Vec<(Task, Owed)>>);

impl Source for Given {
    type Move = ToMake;
    type Error = Error;

    fn pull(&self, _: usize) -> Result<Pulled<ToMake>> {
        let mut left = self.0.lock(); // see the type
        if left.is_empty() {
            return Ok(Pulled::End);
        }
        let count = left.len().min(OWED_PER_READ);
        Ok(Pulled::Moves(left.drain(..count).map(|(task, owed)| ToMake(task, owed)).collect()))
    }

    fn wait(&self, _: Duration) {}

    fn finish(&self, _: Vec<ToMake>) -> Result<()> {
        Ok(())
    }

    fn again(&self, _: &TargetId) -> Result<()> {
        Ok(())
    }
}

/// The store's targets, as the pipeline's sink.
struct Targets<'a> {
    mover: &'a Mover,
    at_once: bool,
    /// The number of finished tasks. Relaxed: the pipeline joins its workers before `flow` reads the sum.
    done: AtomicUsize,
}

impl<'a> Sink<ToMake> for Targets<'a> {
    type Written = Made<'a>;
    type Error = Error;

    fn write(&self, _: &TargetId, tasks: &[ToMake]) -> Result<Made<'a>, Failure<Error>> {
        let mut made = Made { claimed: Claimed::none(self.mover), changes: Vec::new(), done: 0 };
        tasks.iter().try_for_each(|ToMake(task, owed)| self.mover.make_next(&mut made, task, owed, self.at_once))?;
        Ok(made)
    }

    fn sync(&self, _: &TargetId, made: Made<'a>) -> Result<(), Failure<Error>> {
        self.done.fetch_add(self.mover.register(made)?, Ordering::Relaxed); // see the field
        Ok(())
    }

    fn park(&self, _: &TargetId, _: &str) -> Result<()> {
        Ok(())
    }
}

impl Mover {
    /// Makes the pending replicas of one object or of all, as far as the targets allow, for a few seconds at most. Returns
    /// the number of tasks that are no longer pending.
    pub fn make_all(&self, object: Option<u64>, at_once: bool) -> Result<usize> {
        let first = self.owed_next(object, None)?;
        if first.len() < OWED_PER_READ && !self.is_pipeline_worth_it(&first) {
            return self.make(&first, at_once);
        }
        let end = Instant::now() + MARK_INTERVAL;
        self.flow(OwedSet { mover: self, object, is_own: false, after: Mutex::default(), end }, at_once)
    }

    /// Makes the pending replicas that are for this process, as [`Mover::make_all`] makes all: nodes that share a store each make those of
    /// their own targets.
    pub(super) fn make_own(&self) -> Result<usize> {
        if !self.catalog.is_shared() {
            return self.make_all(None, false);
        }
        let mut tasks = self.catalog.owed(None, OWED_PER_SCAN)?;
        let is_all = tasks.len() < OWED_PER_SCAN;
        tasks.retain(|(task, _)| self.is_owed_here(task));
        if is_all && !self.is_pipeline_worth_it(&tasks) {
            return self.make(&tasks, false);
        }
        let end = Instant::now() + MARK_INTERVAL;
        self.flow(OwedSet { mover: self, object: None, is_own: true, after: Mutex::default(), end }, false)
    }

    fn is_owed_here(&self, task: &Task) -> bool {
        self.tiers.device(task.target).is_ok_and(|device| self.reaper.is_own(device))
    }

    /// Makes these pending replicas, as far as the targets allow. Returns the number of tasks that are no longer pending.
    pub(super) fn make_given(&self, owed: Vec<(Task, Owed)>) -> Result<usize> {
        if self.is_pipeline_worth_it(&owed) { self.flow(Given(Mutex::new(owed)), true) } else { self.make(&owed, true) }
    }

    fn flow(&self, source: impl Source<Move = ToMake, Error = Error>, at_once: bool) -> Result<usize> {
        let sink = Targets { mover: self, at_once, done: AtomicUsize::new(0) };
        let workers = self.tiers.devices.len().min(MAX_PARALLEL_TARGETS);
        let settings = Settings {
            max_bytes: REGISTERED_BYTES_PER_COMMIT,
            memory: MAX_WAITING_BYTES,
            workers,
            ..Settings::default()
        };
        match terrace_pipeline::run(&[source], &sink, &settings, &Figures::default()) {
            // Relaxed: all workers have ended.
            Ok(()) => Ok(sink.done.load(Ordering::Relaxed)),
            Err(Ended::Failed(error)) => Err(error),
            Err(Ended::NoThread(error)) => Err(Error::io("starting a thread of the mover")(error)),
        }
    }

    /// Returns the next pending replicas of one object or of all.
    pub fn owed_next(&self, object: Option<u64>, after: Option<Task>) -> Result<Vec<(Task, Owed)>> {
        let before = object.map(|object| Task { object, frame_offset: 0, write: 0, target: 0 });
        let mut tasks = self.catalog.owed(after.or(before).as_ref(), OWED_PER_READ)?;
        tasks.retain(|(task, _)| object.is_none_or(|object| task.object == object));
        Ok(tasks)
    }

    /// Returns whether threads of a pipeline are worth their cost: several targets are written to for a long time.
    fn is_pipeline_worth_it(&self, tasks: &[(Task, Owed)]) -> bool {
        let several = tasks.windows(2).any(|pair| pair[0].0.target != pair[1].0.target);
        let seconds = |(task, owed): &(Task, Owed)| {
            let device = self.tiers.device(task.target).ok()?;
            Some(device.writing.latency() + f64::from(owed.raw_len) / device.writing.rate())
        };
        several && tasks.iter().filter_map(seconds).sum::<f64>() > MIN_PIPELINE_SECONDS
    }

    /// Like [`Mover::make_all`], but repeatedly calls `progress` with the number of pending replicas.
    pub(super) fn make_all_telling(&self, progress: &mut dyn FnMut(u64)) -> Result<usize> {
        let (done, is_done) = channel();
        std::thread::scope(|scope| {
            let make = move || done.send(self.make_all(None, true));
            let thread = std::thread::Builder::new().name("terrace-flow".into()).spawn_scoped(scope, make);
            thread.map_err(Error::io("starting a thread of the mover"))?;
            loop {
                match is_done.recv_timeout(PROGRESS_INTERVAL) {
                    Ok(made) => return made,
                    Err(RecvTimeoutError::Timeout) => progress(self.catalog.owed_count(None)?),
                    // The thread has panicked. The scope passes the panic on.
                    Err(RecvTimeoutError::Disconnected) => return Ok(0),
                }
            }
        })
    }
}
