//! Continuous, pull-based movement from sources to destinations (RFlush): four stages joined by bounded channels.
//!
//! ```text
//! source ─ collector   pulls in order of arrival, as far as memory allows
//!        ─ grouping    moves to one destination become a segment, until it is large, old or wanted
//!        ─ sorter      restores the order inside the segment
//!        ─ dispatcher  writes segments, many destinations at once, each destination's in order
//! ```
//!
//! [`run`] is the pipeline; [`Source`] and [`Sink`] are its two ends. It depends on no store, no files and no format:
//! the engine's mover connects the pending replicas to the targets, and streams connect a log of requests to files,
//! objects or keys.
//!
//! **Guarantees.** Moves to one destination are written in the order in which they are pulled, by one thread at a time.
//! A move is finished only after [`Sink::sync`] has returned for it. The pipeline holds no more than
//! [`Settings::memory`] bytes, plus what one pull returns beyond its budget. A failed destination holds no memory: the
//! pipeline drops its moves, and pulls them again when the retry is due ([`Source::again`]). After
//! [`Settings::patience`] the destination is parked until [`Sink::wanted_again`] names it. Other destinations are not
//! affected.

mod collector;
mod dispatcher;
mod figures;
mod grouping;
mod memory;
mod pipeline;
mod segment;
mod settings;
mod shared;
mod sorter;
mod worker;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

pub use figures::{Closed, Figures};
pub use pipeline::{Ended, run};
pub use settings::Settings;

/// A unit of work that is moved as a whole to one destination.
pub trait Move: Send {
    /// The type of destinations.
    type Destination: Clone + Eq + Hash + Debug + Send + Sync;
    /// The type that orders the moves to one destination.
    type Order: Ord;

    /// Returns the destination.
    fn destination(&self) -> &Self::Destination;

    /// Returns the position among the moves to the destination.
    fn order(&self) -> Self::Order;

    /// Returns the memory that the move takes, in bytes.
    fn weight(&self) -> usize;

    /// Returns whether finishing this move proves that a failed destination works again. A part of something that
    /// restarts after each failure is no such proof, because the next part may always fail.
    fn is_progress(&self) -> bool {
        true
    }
}

/// A move's destination.
pub type DestinationOf<M> = <M as Move>::Destination;

/// The result of a pull.
#[derive(Debug)]
pub enum Pulled<M> {
    /// The next moves, in order of arrival.
    Moves(Vec<M>),
    /// No moves now; there may be some later.
    Nothing,
    /// No moves any more. The pipeline finishes the moves in progress, and retries failed destinations until they are
    /// parked.
    End,
    /// The source wants to stop. The pipeline finishes the moves in progress as far as possible, and drops the rest.
    Stop,
}

/// A source of moves. Its contents survive the process: the next run pulls unfinished moves again.
pub trait Source: Sync {
    /// The type of moves.
    type Move: Move;
    /// The type of errors that end the pipeline.
    type Error: Send;

    /// Returns the next moves in order of arrival: at most `budget` bytes, but at least one move if there is any. The
    /// moves of one pull may be in any order; the sorter restores it.
    fn pull(&self, budget: usize) -> Result<Pulled<Self::Move>, Self::Error>;

    /// Blocks until there may be something to pull, for at most `limit`.
    fn wait(&self, limit: Duration);

    /// Marks moves as finished; they must never be pulled again.
    fn finish(&self, moves: Vec<Self::Move>) -> Result<(), Self::Error>;

    /// Makes the source return all pulled and unfinished moves to `destination` again, before any later ones.
    fn again(&self, destination: &DestinationOf<Self::Move>) -> Result<(), Self::Error>;
}

/// A sink of moves.
pub trait Sink<M: Move>: Sync {
    /// The data that [`Sink::write`] passes to [`Sink::sync`].
    type Written;
    /// The type of errors that end the pipeline.
    type Error: Send;

    /// Writes moves, which are in order and continue what was written to the destination before. Skips moves that are
    /// already there.
    fn write(&self, destination: &DestinationOf<M>, moves: &[M]) -> Result<Self::Written, Failure<Self::Error>>;

    /// Makes written moves durable, and only then records that they are written.
    fn sync(&self, destination: &DestinationOf<M>, written: Self::Written) -> Result<(), Failure<Self::Error>>;

    /// Returns the parked destinations to retry; each one is returned once.
    fn wanted_again(&self) -> Result<Vec<DestinationOf<M>>, Self::Error> {
        Ok(Vec::new())
    }

    /// Records that the destination is parked, and why.
    fn park(&self, destination: &DestinationOf<M>, reason: &str) -> Result<(), Self::Error>;
}

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// The destination rejects the write now, for this reason; the write is retried.
    Later(String),
    /// The destination will always reject the write, for this reason; it is parked.
    Never(String),
    /// The whole pipeline cannot continue.
    Fatal(E),
}

impl<E> From<E> for Failure<E> {
    fn from(error: E) -> Self {
        Failure::Fatal(error)
    }
}

impl<S: Source> Source for &S {
    type Move = S::Move;
    type Error = S::Error;

    fn pull(&self, budget: usize) -> Result<Pulled<S::Move>, S::Error> {
        (**self).pull(budget)
    }

    fn wait(&self, limit: Duration) {
        (**self).wait(limit);
    }

    fn finish(&self, moves: Vec<S::Move>) -> Result<(), S::Error> {
        (**self).finish(moves)
    }

    fn again(&self, destination: &DestinationOf<S::Move>) -> Result<(), S::Error> {
        (**self).again(destination)
    }
}
