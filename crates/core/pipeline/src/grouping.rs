//! Grouping: it combines moves to one destination into a segment. A segment is closed when it is large or old, when a
//! worker is free, or when memory is short.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use crate::segment::Segment;
use crate::shared::{Event, Shared};
use crate::{Closed, DestinationOf, Move};

/// Groups moves until all collectors have ended.
pub fn group<M: Move>(shared: &Shared<'_, M>, events: &Receiver<Event<M>>, next: &SyncSender<Segment<M>>) {
    let mut grouping = Grouping { shared, next, open: HashMap::new(), large: Vec::new(), epochs: HashMap::new() };
    loop {
        match events.recv_timeout(grouping.until_next_close()) {
            Ok(event) => grouping.take(event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        grouping.close_old();
        grouping.close_wanted();
    }
    grouping.close_all(Closed::Idle);
}

struct Grouping<'a, 'b, M: Move> {
    shared: &'a Shared<'b, M>,
    next: &'a SyncSender<Segment<M>>,
    open: HashMap<DestinationOf<M>, Segment<M>>,
    /// The destinations whose segments are large.
    large: Vec<DestinationOf<M>>,
    /// The epoch of each source and destination: how often the source restarted after the destination failed.
    epochs: HashMap<(usize, DestinationOf<M>), u64>,
}

impl<M: Move> Grouping<'_, '_, M> {
    fn take(&mut self, event: Event<M>) {
        match event {
            Event::Moves { source, moves } => {
                moves.into_iter().for_each(|one| self.add(source, one));
                // Segments are closed only after all moves of a pull are added: the moves of one pull may be in any
                // order, and the sorter restores the order only within a segment.
                self.close_large();
            }
            Event::Again { source, destination, epoch } => {
                if self.open.get(&destination).is_some_and(|open| open.epoch < epoch)
                    && let Some(void) = self.open.remove(&destination)
                {
                    self.shared.memory.give(void.weight);
                }
                self.epochs.insert((source, destination), epoch);
            }
            Event::Free => {}
            Event::Short => self.close_all(Closed::Memory),
        }
    }

    fn add(&mut self, source: usize, one: M) {
        let destination = one.destination().clone();
        let epoch = match self.epochs.is_empty() {
            true => 0,
            false => self.epochs.get(&(source, destination.clone())).copied().unwrap_or(0),
        };
        if epoch < self.shared.dispatch.min_epoch(&destination) {
            self.shared.memory.give(one.weight());
            return;
        }
        let open = self.open.entry(destination).or_insert_with_key(|key| Segment::new(key.clone(), epoch));
        open.add(source, one);
        if open.weight >= self.shared.settings.max_bytes {
            self.large.push(open.destination.clone());
        }
    }

    fn close(&mut self, destination: &DestinationOf<M>, why: Closed) {
        if let Some(segment) = self.open.remove(destination) {
            self.shared.figures.closed(why);
            self.shared.dispatch.announce(destination);
            if let Err(unsent) = self.next.send(segment) {
                // The send fails only if the pipeline has ended.
                self.shared.memory.give(unsent.0.weight);
            }
        }
    }

    fn close_large(&mut self) {
        let large = std::mem::take(&mut self.large);
        large.iter().for_each(|destination| self.close(destination, Closed::Size));
    }

    fn close_all(&mut self, why: Closed) {
        let all: Vec<_> = self.open.keys().cloned().collect();
        all.iter().for_each(|destination| self.close(destination, why));
    }

    fn close_old(&mut self) {
        let old = |segment: &&Segment<M>| segment.since.elapsed() >= self.shared.settings.max_age;
        let old: Vec<_> = self.open.values().filter(old).map(|segment| segment.destination.clone()).collect();
        old.iter().for_each(|destination| self.close(destination, Closed::Age));
    }

    /// Closes segments for free workers, oldest first. A single request thus waits for no timer, and under load a
    /// segment grows as long as its predecessor is being written.
    fn close_wanted(&mut self) {
        loop {
            let free = self.shared.dispatch.free_worker();
            let Some(free) = free.filter(|_| !self.open.is_empty()) else { return };
            let wanted = self.open.values().filter(|segment| !free.busy.contains(&segment.destination));
            let oldest = wanted.min_by_key(|segment| segment.since).map(|segment| segment.destination.clone());
            let Some(oldest) = oldest else { return };
            self.close(&oldest, Closed::Idle);
        }
    }

    fn until_next_close(&self) -> Duration {
        let first = self.open.values().map(|segment| segment.since).min();
        let end = first.map(|since| since + self.shared.settings.max_age);
        end.map_or(Duration::from_secs(1), |end| end.saturating_duration_since(Instant::now()))
    }
}
