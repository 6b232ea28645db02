//! The dispatcher: which segment is written next, by whom, and what becomes of destinations that fail.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};

use crate::segment::Segment;
use crate::{DestinationOf, Move, Settings};

/// The longest wait before a destination that failed is tried again.
const LONGEST: Duration = Duration::from_secs(5);

/// Segments that wait for a worker, each destination's in order and by one worker at a time.
pub struct Dispatcher<'a, M: Move> {
    settings: &'a Settings,
    sources: usize,
    state: Mutex<State<M>>,
    /// Segments came, went, or come no more.
    changed: Condvar,
    /// Whether any destination ever failed.
    failed: AtomicBool,
}

struct State<M: Move> {
    waiting: HashMap<DestinationOf<M>, VecDeque<Segment<M>>>,
    /// Those with waiting segments that nobody writes to.
    ready: VecDeque<DestinationOf<M>>,
    /// Those that are being written to, and since when.
    writing: HashMap<DestinationOf<M>, Instant>,
    /// How many closed segments each destination has that are not done.
    closed: HashMap<DestinationOf<M>, usize>,
    queued: usize,
    workers: usize,
    resting: usize,
    over: bool,
    down: HashMap<DestinationOf<M>, Down>,
    /// Segments of an earlier epoch are void.
    floors: HashMap<DestinationOf<M>, u64>,
}

/// A destination that fails.
struct Down {
    /// How long it has failed: what tries and the waits between them took. That all workers were busy with others is not held
    /// against it.
    failing: Duration,
    due: Instant,
    wait: Duration,
    parked: bool,
    /// The sources that have been told to begin again.
    told: HashSet<usize>,
    /// Whether it has taken something since. It is forgotten once all sources are told.
    healed: bool,
}

/// Somebody is free to write to any destination but these.
pub struct Free<D> {
    pub busy: HashSet<D>,
}

/// What to do with a destination that has failed.
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
            resting: 0,
            over: false,
            down: HashMap::new(),
            floors: HashMap::new(),
        };
        Dispatcher {
            settings,
            sources,
            state: Mutex::new(state),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
        }
    }

    fn most_workers(&self) -> usize {
        self.settings.workers.max(1)
    }

    /// A segment is closed and on its way here.
    pub fn announce(&self, destination: &DestinationOf<M>) {
        *self.state.lock().closed.entry(destination.clone()).or_default() += 1;
    }

    /// Whether somebody is free to write one more segment.
    pub fn free_for(&self) -> Option<Free<DestinationOf<M>>> {
        let state = self.state.lock();
        let free = state.closed.len() < self.most_workers();
        free.then(|| Free { busy: state.closed.keys().cloned().collect() })
    }

    /// Takes a segment, once there is room for it; true where a worker is to be started.
    pub fn offer(&self, segment: Segment<M>, void: impl FnOnce(Segment<M>)) -> bool {
        let mut state = self.state.lock();
        while state.queued >= 2 * self.most_workers() && !state.over {
            state = self.changed.wait(state);
        }
        if state.over || segment.epoch < state.floor(&segment.destination) {
            state.done(&segment.destination);
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
        let start = state.resting == 0 && state.workers < self.most_workers();
        state.workers += usize::from(start);
        self.changed.notify_all();
        start
    }

    /// The next segment to write; none where the worker is to end.
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
            state.resting += 1;
            let mut rested = false;
            if !state.over {
                let (held, rest) = self.changed.wait_timeout(state, self.settings.rest);
                (state, rested) = (held, rest.timed_out());
            }
            state.resting -= 1;
            if state.ready.is_empty() && (state.over || rested) {
                state.workers -= 1;
                return None;
            }
        }
    }

    /// A segment is done with; `heals`: it was written, which shows that the destination is well.
    pub fn written(&self, destination: &DestinationOf<M>, heals: bool) {
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
        state.done(destination);
        match state.waiting.get(destination) {
            Some(waiting) if !waiting.is_empty() => state.ready.push_back(destination.clone()),
            _ => drop(state.waiting.remove(destination)),
        }
        self.changed.notify_all();
    }

    /// A segment was not written. Whatever else is here for the destination is void, and handed to `void`: all of it is pulled again.
    pub fn failed(&self, destination: &DestinationOf<M>, for_good: bool, mut void: impl FnMut(Segment<M>)) -> Verdict {
        self.failed.store(true, Ordering::Release);
        let now = Instant::now();
        let mut state = self.state.lock();
        *state.floors.entry(destination.clone()).or_default() += 1;
        let tried = state.writing.get(destination).map_or(Duration::ZERO, Instant::elapsed);
        let first = || {
            let (parked, told, healed) = (false, HashSet::new(), false);
            Down { failing: Duration::ZERO, due: now, wait: self.settings.retry, parked, told, healed }
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
        down.wait = (down.wait * 2).min(LONGEST);
        let verdict = if down.parked { Verdict::Park } else { Verdict::Retry };
        let waiting = state.waiting.remove(destination).unwrap_or_default();
        state.queued -= waiting.len();
        waiting.iter().for_each(|_| state.done(destination));
        self.release(&mut state, destination);
        drop(state);
        waiting.into_iter().for_each(&mut void);
        verdict
    }

    /// A parked destination is tried again at once, with all its patience.
    pub fn release_parked(&self, destination: &DestinationOf<M>) {
        let mut state = self.state.lock();
        if let Some(down) = state.down.get_mut(destination).filter(|down| down.parked) {
            (down.parked, down.failing, down.due, down.wait) =
                (false, Duration::ZERO, Instant::now(), self.settings.retry);
            down.told.clear();
        }
    }

    /// The destinations that are to be tried again now, each told once to each source, with their new epochs.
    pub fn due(&self, source: usize, now: Instant) -> Vec<(DestinationOf<M>, u64)> {
        if !self.failed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let State { down, floors, .. } = &mut *state;
        let mut due = Vec::new();
        for (destination, down) in down.iter_mut().filter(|(_, down)| !down.parked && down.due <= now) {
            if down.told.insert(source) {
                due.push((destination.clone(), floors.get(destination).copied().unwrap_or(0)));
            }
        }
        down.retain(|_, down| !(down.healed && down.told.len() == self.sources));
        due
    }

    /// Whether a source is yet to be told to begin again with some destination.
    pub fn any_waiting(&self, source: usize) -> bool {
        self.state.lock().down.values().any(|down| !down.parked && !down.told.contains(&source))
    }

    /// The epoch before which all that goes to a destination is void.
    pub fn floor(&self, destination: &DestinationOf<M>) -> u64 {
        if self.failed.load(Ordering::Acquire) { self.state.lock().floor(destination) } else { 0 }
    }

    /// No segment comes any more: workers end when there is nothing left.
    pub fn end(&self) {
        self.state.lock().over = true;
        self.changed.notify_all();
    }
}

impl<M: Move> State<M> {
    fn floor(&self, destination: &DestinationOf<M>) -> u64 {
        self.floors.get(destination).copied().unwrap_or(0)
    }

    fn done(&mut self, destination: &DestinationOf<M>) {
        if let Some(count) = self.closed.get_mut(destination) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.closed.remove(destination);
            }
        }
    }
}
