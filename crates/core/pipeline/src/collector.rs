//! The collector: it pulls moves from one source in order of arrival, as far as memory allows.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crate::shared::{Event, Shared};
use crate::{Move, Pulled, Sink, Source};

/// The maximum sleep between two checks for due retries.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of bytes per pull, so that the later stages get work early.
const MAX_PULL_BYTES: usize = 1 << 20;

/// Pulls from source number `number` until the source or the pipeline ends.
pub fn collect<S: Source, K: Sink<S::Move, Error = S::Error>>(
    source: &S,
    sink: &K,
    number: usize,
    shared: &Shared<'_, S::Move>,
    next: &SyncSender<Event<S::Move>>,
) -> Result<(), S::Error> {
    // A send fails only after the later stages have ended, when nothing needs the event any more.
    let send = |event| drop(next.send(event));
    let mut ended = false;
    while !shared.stopped() {
        sink.wanted_again()?.iter().for_each(|destination| shared.dispatch.retry_parked(destination));
        for (destination, epoch) in shared.dispatch.take_due_retries(number, Instant::now()) {
            source.again(&destination)?;
            send(Event::Again { source: number, destination, epoch });
            ended = false;
        }
        if ended {
            // A write in progress may still fail, and its moves would have to be pulled again. The source therefore
            // ends only when no memory is held.
            if shared.memory.is_empty_after(MAX_POLL_INTERVAL) {
                if !shared.dispatch.has_pending_restart(number) {
                    return Ok(());
                }
                std::thread::sleep(MAX_POLL_INTERVAL / 10);
            }
            continue;
        }
        let free = shared.memory.free(MAX_POLL_INTERVAL);
        if free == 0 {
            send(Event::Short);
            continue;
        }
        match source.pull(free.min(MAX_PULL_BYTES))? {
            Pulled::Moves(moves) => {
                shared.memory.take(moves.iter().map(Move::weight).sum());
                send(Event::Moves { source: number, moves });
            }
            Pulled::Nothing => source.wait(MAX_POLL_INTERVAL),
            Pulled::End => ended = true,
            Pulled::Stop => return Ok(()),
        }
    }
    Ok(())
}
