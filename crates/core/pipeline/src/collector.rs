//! The collector: pulls moves from one source, in order of arrival, as far as memory allows.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crate::grouping::Event;
use crate::pipeline::Shared;
use crate::{Move, Pulled, Sink, Source};

/// The longest rest before it is looked whether a destination is due.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes pulled at once, at most, so that the stages behind have work early.
const SIP: usize = 1 << 20;

/// Collects from source number `number` until it ends, or the pipeline does.
pub fn collect<S: Source, K: Sink<S::Move, Error = S::Error>>(
    source: &S,
    sink: &K,
    number: usize,
    shared: &Shared<'_, S::Move>,
    next: &SyncSender<Event<S::Move>>,
) -> Result<(), S::Error> {
    // What is sent to stages that have ended is of no use to anybody.
    let send = |event| drop(next.send(event));
    let mut ended = false;
    while !shared.stopped() {
        sink.wanted_again()?.iter().for_each(|destination| shared.dispatch.release_parked(destination));
        for (destination, epoch) in shared.dispatch.due(number, Instant::now()) {
            source.again(&destination)?;
            send(Event::Again { source: number, destination, epoch });
            ended = false;
        }
        if ended {
            // Before what is under way is done, nobody knows whether some of it is to be pulled again.
            if shared.memory.is_empty_after(LOOK) {
                if !shared.dispatch.any_waiting(number) {
                    return Ok(());
                }
                std::thread::sleep(LOOK / 10);
            }
            continue;
        }
        let free = shared.memory.free(LOOK);
        if free == 0 {
            send(Event::Short);
            continue;
        }
        match source.pull(free.min(SIP))? {
            Pulled::Moves(moves) => {
                shared.memory.take(moves.iter().map(Move::weight).sum());
                send(Event::Moves { source: number, moves });
            }
            Pulled::Nothing => source.wait(LOOK),
            Pulled::End => ended = true,
            Pulled::Stop => return Ok(()),
        }
    }
    Ok(())
}
