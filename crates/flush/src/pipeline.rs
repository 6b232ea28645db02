//! The four stages, put together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

use crate::dispatcher::Dispatcher;
use crate::grouping::Event;
use crate::memory::Memory;
use crate::segment::Segment;
use crate::{Figures, Move, Settings, Sink, Source};
use crate::{collector, grouping, sorter, worker};

/// Events and segments that wait between two stages; their bytes are bounded by [`Settings::memory`].
const BETWEEN: usize = 8;

/// What all stages see.
pub struct Shared<'a, M: Move> {
    pub settings: &'a Settings,
    pub figures: &'a Figures,
    pub memory: Memory<'a>,
    pub dispatch: Dispatcher<'a, M>,
    stopped: AtomicBool,
    /// Tells grouping that a worker is free, as long as there is a collector.
    grouping: Mutex<Option<SyncSender<Event<M>>>>,
}

impl<M: Move> Shared<'_, M> {
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends all stages as soon as they can; nothing more is written.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.dispatch.end();
    }

    pub fn tell_free(&self) {
        if let Some(grouping) = &*self.grouping.lock() {
            // Where it has other events to look at, it will see for itself.
            let _ = grouping.try_send(Event::Free);
        }
    }
}

/// Moves everything from the sources to the sink, until all sources have ended or one says stop.
///
/// # Errors
/// The first error of a source or the sink. What is not finished is pulled again by the next run.
pub fn run<S: Source, K: Sink<S::Move, Error = S::Error>>(
    sources: &[S],
    sink: &K,
    settings: &Settings,
    figures: &Figures,
) -> Result<(), S::Error> {
    let (to_grouping, events) = sync_channel(BETWEEN);
    let (to_sorter, segments) = sync_channel::<Segment<S::Move>>(BETWEEN);
    let shared = Shared {
        settings,
        figures,
        memory: Memory::new(settings.memory, figures),
        dispatch: Dispatcher::new(settings),
        stopped: AtomicBool::new(false),
        grouping: Mutex::new(Some(to_grouping.clone())),
    };
    let error = Mutex::new(None);
    let fail = |found: S::Error| {
        error.lock().get_or_insert(found);
        shared.stop();
    };
    thread::scope(|scope| {
        let (shared, fail) = (&shared, &fail);
        let sorting = scope.spawn(move || {
            let void = |segment: Segment<S::Move>| shared.memory.give(segment.weight);
            sorter::sort(shared, &segments, |segment| {
                if shared.dispatch.offer(segment, void) {
                    scope.spawn(move || worker::work(shared, sources, sink, fail));
                }
            });
        });
        scope.spawn(move || grouping::group(shared, &events, &to_sorter));
        let collect = |(number, source)| {
            let next = to_grouping.clone();
            scope.spawn(move || collector::collect(source, number, shared, &next).map_err(fail))
        };
        let collectors: Vec<_> = sources.iter().enumerate().map(collect).collect();
        // A panic is handed on by the scope.
        collectors.into_iter().for_each(|collector| drop(collector.join()));
        drop(to_grouping);
        shared.grouping.lock().take();
        drop(sorting.join());
        shared.dispatch.end();
    });
    error.into_inner().map_or(Ok(()), Err)
}
