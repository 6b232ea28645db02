//! The dispatcher: it hands segments to workers, and tracks destinations that fail.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};

use crate::segment::Segment;
use crate::{DestinationOf, Move, Settings};

/// The maximum backoff delay before a failed destination is retried.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The queue of segments for the workers. The segments of a destination are in order, and only one worker at a time
/// writes to a destination.
pub struct Dispatcher<'a, M: Move> {
    settings: &'a Settings,
    sources: usize,
    /// Held for a change of the queues. Sources and sinks are called without it.
    state: Mutex<State<M>>,
    /// Signals that segments were added or finished, or that no more will come.
    changed: Condvar,
    /// Whether any destination ever failed. While it is false, lookups skip the lock. It is set before the epoch of the
    /// failed destination changes.
    failed: AtomicBool,
}

struct State<M: Move> {
    waiting: HashMap<DestinationOf<M>, VecDeque<Segment<M>>>,
    /// The destinations with queued segments that no worker writes to.
    ready: VecDeque<DestinationOf<M>>,
    /// The destinations that workers write to, and the start of each write.
    writing: HashMap<DestinationOf<M>, Instant>,
    /// The number of closed and unfinished segments of each destination.
    closed: HashMap<DestinationOf<M>, usize>,
    queued: usize,
    workers: usize,
    idle_workers: usize,
    over: bool,
    down: HashMap<DestinationOf<M>, FailedDestination>,
    /// The minimum valid epoch of each destination; segments of an earlier epoch are void.
    min_epochs: HashMap<DestinationOf<M>, u64>,
}

/// A destination that has failed.
struct FailedDestination {
    /// The total duration of failed attempts and of the waits between them. Time during which all workers were busy
    /// with other destinations does not count.
    failing: Duration,
    due: Instant,
    wait: Duration,
    parked: bool,
    /// The sources that have been told to restart from their unfinished moves.
    told: HashSet<usize>,
    /// Whether a write has succeeded since. The entry is removed when all sources have been told.
    healed: bool,
}

/// A worker is free for every destination that is not in `busy`.
pub struct FreeFor<D> {
    pub busy: HashSet<D>,
}

/// The consequence of a failure for the destination.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Retry,
    Park,
}

impl<'a, M: Move> Dispatcher<'a, M> {
    pub fn new(settings: &'a Settings, sources: usize) -> Self {
        let state = State {
            waiting: HashMap::new(),
            ready: VecDeque::new(),
            writing: HashMap::new(),
            closed: HashMap::new(),
            queued: 0,
            workers: 0,
            idle_workers: 0,
            over: false,
            down: HashMap::new(),
            min_epochs: HashMap::new(),
        };
        Dispatcher {
            settings,
            sources,
            state: Mutex::new(state),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
        }
    }

    fn max_workers(&self) -> usize {
        self.settings.workers.max(1)
    }

    /// Announces a closed segment that will be enqueued.
    pub fn announce(&self, destination: &DestinationOf<M>) {
        *self.state.lock().closed.entry(destination.clone()).or_default() += 1;
    }

    /// Returns the destinations that are busy if a worker is free; None if all workers are busy.
    pub fn free_worker(&self) -> Option<FreeFor<DestinationOf<M>>> {
        let state = self.state.lock();
        let free = state.closed.len() < self.max_workers();
        free.then(|| FreeFor { busy: state.closed.keys().cloned().collect() })
    }

    /// Enqueues a segment, and blocks until there is room. Returns true if the caller has to start a worker. Passes a
    /// segment of an old epoch to `void`.
    pub fn enqueue(&self, segment: Segment<M>, void: impl FnOnce(Segment<M>)) -> bool {
        let mut state = self.state.lock();
        while state.queued >= 2 * self.max_workers() && !state.over {
            state = self.changed.wait(state);
        }
        if state.over || segment.epoch < state.min_epoch(&segment.destination) {
            state.forget_closed(&segment.destination);
            drop(state);
            void(segment);
            return false;
        }
        let destination = segment.destination.clone();
        state.queued += 1;
        let waiting = state.waiting.entry(destination.clone()).or_default();
        waiting.push_back(segment);
        if waiting.len() == 1 && !state.writing.contains_key(&destination) {
            state.ready.push_back(destination);
        }
        let start = state.idle_workers == 0 && state.workers < self.max_workers();
        state.workers += usize::from(start);
        self.changed.notify_all();
        start
    }

    /// Returns the next segment to write; None tells the worker to end.
    pub fn next(&self) -> Option<Segment<M>> {
        let mut state = self.state.lock();
        loop {
            if let Some(destination) = state.ready.pop_front()
                && let Some(segment) = state.waiting.get_mut(&destination).and_then(VecDeque::pop_front)
            {
                state.queued -= 1;
                state.writing.insert(destination, Instant::now());
                self.changed.notify_all();
                return Some(segment);
            }
            state.idle_workers += 1;
            let mut rested = false;
            if !state.over {
                let (held, rest) = self.changed.wait_timeout(state, self.settings.rest);
                (state, rested) = (held, rest.timed_out());
            }
            state.idle_workers -= 1;
            if state.ready.is_empty() && (state.over || rested) {
                state.workers -= 1;
                return None;
            }
        }
    }

    /// Finishes a segment. `heals` is set if the segment was written, which proves that the destination works.
    pub fn finish_segment(&self, destination: &DestinationOf<M>, heals: bool) {
        let mut state = self.state.lock();
        if let Some(down) = state.down.get_mut(destination).filter(|_| heals) {
            down.healed = true;
            if down.told.len() == self.sources {
                state.down.remove(destination);
            }
        }
        self.release(&mut state, destination);
    }

    fn release(&self, state: &mut State<M>, destination: &DestinationOf<M>) {
        state.writing.remove(destination);
        state.forget_closed(destination);
        match state.waiting.get(destination) {
            Some(waiting) if !waiting.is_empty() => state.ready.push_back(destination.clone()),
            _ => drop(state.waiting.remove(destination)),
        }
        self.changed.notify_all();
    }

    /// Records that a segment was not written. Every other queued segment of the destination is void and passed to
    /// `void`, because the sources pull all of its moves again.
    pub fn fail_segment(
        &self,
        destination: &DestinationOf<M>,
        for_good: bool,
        mut void: impl FnMut(Segment<M>),
    ) -> Verdict {
        self.failed.store(true, Ordering::Release);
        let now = Instant::now();
        let mut state = self.state.lock();
        *state.min_epochs.entry(destination.clone()).or_default() += 1;
        let tried = state.writing.get(destination).map_or(Duration::ZERO, Instant::elapsed);
        let first = || {
            let (parked, told, healed) = (false, HashSet::new(), false);
            FailedDestination { failing: Duration::ZERO, due: now, wait: self.settings.retry, parked, told, healed }
        };
        let down = state.down.entry(destination.clone()).or_insert_with(first);
        if down.healed {
            *down = first();
        }
        down.told.clear();
        down.failing += tried;
        down.parked = for_good || down.failing >= self.settings.patience;
        down.failing += down.wait;
        down.due = now + down.wait;
        down.wait = (down.wait * 2).min(MAX_RETRY_DELAY);
        let verdict = if down.parked { Verdict::Park } else { Verdict::Retry };
        let waiting = state.waiting.remove(destination).unwrap_or_default();
        state.queued -= waiting.len();
        waiting.iter().for_each(|_| state.forget_closed(destination));
        self.release(&mut state, destination);
        drop(state);
        waiting.into_iter().for_each(&mut void);
        verdict
    }

    /// Retries a parked destination immediately, with its full patience.
    pub fn retry_parked(&self, destination: &DestinationOf<M>) {
        let mut state = self.state.lock();
        if let Some(down) = state.down.get_mut(destination).filter(|down| down.parked) {
            (down.parked, down.failing, down.due, down.wait) =
                (false, Duration::ZERO, Instant::now(), self.settings.retry);
            down.told.clear();
        }
    }

    /// Returns the destinations whose retry is due, with their new epochs. Each source gets each retry once.
    pub fn take_due_retries(&self, source: usize, now: Instant) -> Vec<(DestinationOf<M>, u64)> {
        if !self.failed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let State { down, min_epochs, .. } = &mut *state;
        let mut due = Vec::new();
        for (destination, down) in down.iter_mut().filter(|(_, down)| !down.parked && down.due <= now) {
            if down.told.insert(source) {
                due.push((destination.clone(), min_epochs.get(destination).copied().unwrap_or(0)));
            }
        }
        down.retain(|_, down| !(down.healed && down.told.len() == self.sources));
        due
    }

    /// Returns whether the source has yet to be told to restart for some destination.
    pub fn has_pending_restart(&self, source: usize) -> bool {
        self.state.lock().down.values().any(|down| !down.parked && !down.told.contains(&source))
    }

    /// Returns the minimum valid epoch of a destination.
    pub fn min_epoch(&self, destination: &DestinationOf<M>) -> u64 {
        if self.failed.load(Ordering::Acquire) { self.state.lock().min_epoch(destination) } else { 0 }
    }

    /// Marks the end of the segments: workers end when the queue is empty.
    pub fn end(&self) {
        self.state.lock().over = true;
        self.changed.notify_all();
    }
}

impl<M: Move> State<M> {
    fn min_epoch(&self, destination: &DestinationOf<M>) -> u64 {
        self.min_epochs.get(destination).copied().unwrap_or(0)
    }

    fn forget_closed(&mut self, destination: &DestinationOf<M>) {
        if let Some(count) = self.closed.get_mut(destination) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.closed.remove(destination);
            }
        }
    }
}
