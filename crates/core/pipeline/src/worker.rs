//! A worker: it writes segments to their destinations, makes them durable, and finishes their moves.

use crate::dispatcher::Verdict;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::{Failure, Move, Sink, Source};

/// Writes segments until the worker has been idle for a while, or no more will come.
pub fn work<S: Source, K: Sink<S::Move, Error = S::Error>>(
    shared: &Shared<'_, S::Move>,
    sources: &[S],
    sink: &K,
    fail: &dyn Fn(S::Error),
) {
    let _alarm = StopOnPanic(shared);
    shared.figures.worker_begins();
    while let Some(segment) = shared.dispatch.next() {
        if shared.stopped() {
            shared.dispatch.finish_segment(&segment.destination, false);
            shared.memory.give(segment.weight);
        } else if let Err(error) = write(shared, sources, sink, segment) {
            fail(error);
        }
        shared.notify_worker_free();
    }
    shared.figures.worker_ends();
}

fn write<S: Source, K: Sink<S::Move, Error = S::Error>>(
    shared: &Shared<'_, S::Move>,
    sources: &[S],
    sink: &K,
    segment: Segment<S::Move>,
) -> Result<(), S::Error> {
    let Segment { destination, moves, weight, .. } = segment;
    let (numbers, moves): (Vec<usize>, Vec<S::Move>) = moves.into_iter().unzip();
    let (count, heals) = (moves.len(), moves.iter().any(Move::is_progress));
    let written = sink.write(&destination, &moves).and_then(|written| sink.sync(&destination, written));
    let failed = |reason: &str, for_good| {
        // Relaxed: see `Figures`.
        shared.figures.failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let void = |segment: Segment<S::Move>| shared.memory.give(segment.weight);
        match shared.dispatch.fail_segment(&destination, for_good, void) {
            Verdict::Park => sink.park(&destination, reason),
            Verdict::Retry => Ok(()),
        }
    };
    let done = match written {
        Ok(()) => {
            let finished = finish(sources, numbers, moves);
            shared.figures.finished(count, weight);
            shared.dispatch.finish_segment(&destination, heals);
            finished
        }
        Err(Failure::Later(reason)) => failed(&reason, false),
        Err(Failure::Never(reason)) => failed(&reason, true),
        Err(Failure::Fatal(error)) => {
            shared.dispatch.finish_segment(&destination, false);
            Err(error)
        }
    };
    // Memory is released last: collectors conclude that nothing is in progress when no memory is held.
    shared.memory.give(weight);
    done
}

fn finish<S: Source>(sources: &[S], numbers: Vec<usize>, moves: Vec<S::Move>) -> Result<(), S::Error> {
    if let [only] = sources {
        return only.finish(moves);
    }
    let mut parts: Vec<Vec<S::Move>> = sources.iter().map(|_| Vec::new()).collect();
    for (number, one) in numbers.into_iter().zip(moves) {
        if let Some(part) = parts.get_mut(number) {
            part.push(one);
        }
    }
    let finish = |(source, part): (&S, Vec<S::Move>)| if part.is_empty() { Ok(()) } else { source.finish(part) };
    sources.iter().zip(parts).try_for_each(finish)
}

/// Stops the pipeline if a worker panics: the other stages would wait forever for the worker's segment.
struct StopOnPanic<'a, 'b, M: crate::Move>(&'a Shared<'b, M>);

impl<M: crate::Move> Drop for StopOnPanic<'_, '_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
