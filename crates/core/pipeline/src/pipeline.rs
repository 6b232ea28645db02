//! The composition of the four stages.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{self, ScopedJoinHandle};

use rustix_futex_sync::Mutex;

use crate::segment::Segment;
use crate::shared::Shared;
use crate::{Figures, Settings, Sink, Source};
use crate::{collector, grouping, sorter, worker};

/// The capacity of the channels between stages, in events or segments. [`Settings::memory`] limits their bytes.
const MAX_QUEUED_PER_STAGE: usize = 8;

/// Why a pipeline ended before its sources.
#[derive(Debug)]
pub enum Ended<E> {
    /// A source or the sink failed.
    Failed(E),
    /// The system could not start a thread.
    NoThread(io::Error),
}

/// Moves everything from the sources to the sink, until all sources have ended or one requests a stop.
///
/// # Errors
/// The first error of a source or the sink. The next run pulls the unfinished moves again.
pub fn run<'a, S: Source, K: Sink<S::Move, Error = S::Error>>(
    sources: &'a [S],
    sink: &K,
    settings: &Settings,
    figures: &Figures,
) -> Result<(), Ended<S::Error>> {
    let (to_grouping, events) = sync_channel(MAX_QUEUED_PER_STAGE);
    let (to_sorter, segments) = sync_channel::<Segment<S::Move>>(MAX_QUEUED_PER_STAGE);
    let shared = Shared::new(settings, figures, sources.len(), to_grouping.clone());
    let error = Mutex::new(None);
    let end = |found| {
        error.lock().get_or_insert(found);
        shared.stop();
    };
    let fail = |found: S::Error| end(Ended::Failed(found));
    let (shared, fail) = (&shared, &fail);
    thread::scope(|scope| {
        let named = |name: &str| thread::Builder::new().name(format!("terrace-{name}"));
        let no_thread = |error| end(Ended::NoThread(error));
        let sorting = named("sorter").spawn_scoped(scope, move || {
            let void = |segment: Segment<S::Move>| shared.memory.give(segment.weight);
            sorter::sort(shared, &segments, |segment| {
                if shared.dispatch.enqueue(segment, void) {
                    let worker = move || worker::work(shared, sources, sink, fail);
                    let begun = thread::Builder::new().name("terrace-pipeline".into()).spawn_scoped(scope, worker);
                    if begun.is_err() {
                        // The system could not start a thread, so this one does the work.
                        worker();
                    }
                }
            });
        });
        let grouping = named("grouping").spawn_scoped(scope, move || grouping::group(shared, &events, &to_sorter));
        let begun = sorting.and_then(|sorting| grouping.map(|_| sorting));
        let sorting = begun.map_err(no_thread).ok();
        let collect =
            move |number, source, next: &_| collector::collect(source, sink, number, shared, next).unwrap_or_else(fail);
        if let Some(((number, first), others)) = sources.iter().enumerate().collect::<Vec<_>>().split_first() {
            let begin = |&(number, source): &(usize, &'a S)| {
                let next = to_grouping.clone();
                named("collector").spawn_scoped(scope, move || collect(number, source, &next)).map_err(no_thread)
            };
            let others: Vec<_> = others.iter().map(begin).collect();
            collect(*number, first, &to_grouping);
            others.into_iter().flatten().for_each(|other| drop(other.join()));
        }
        drop(to_grouping);
        shared.forget_grouping();
        // The scope propagates a panic.
        drop(sorting.map(ScopedJoinHandle::join));
        shared.dispatch.end();
    });
    error.into_inner().map_or(Ok(()), Err)
}
