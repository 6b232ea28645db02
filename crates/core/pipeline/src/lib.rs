//! Continuous, pull-based movement from sources to destinations (RFlush): four stages joined by bounded channels.
//!
//! ```text
//! source ─ collector   pulls in order of arrival, as far as memory allows
//!        ─ grouping    moves to one destination become a segment, until it is large, old or wanted
//!        ─ sorter      restores the order inside the segment
//!        ─ dispatcher  writes segments, many destinations at once, each destination's in order
//! ```
//!
//! [`run`] is the pipeline, [`Source`] and [`Sink`] are its two ends. It knows no store, no files and no format: the
//! engine's mover puts the owed set and the targets at its ends, streams of requests a log and files, objects or keys.
//!
//! **What it promises.** Moves to one destination are written in the order in which they are pulled, by one thread at a
//! time. A move is finished only after [`Sink::sync`] returned for it. No more bytes than [`Settings::memory`] are held,
//! and what one pull gives beyond its budget. A destination that fails keeps no memory: its moves are forgotten, and
//! pulled again once it is due ([`Source::again`]); after [`Settings::patience`] it is parked, until
//! [`Sink::wanted_again`] names it. The others go on.

mod collector;
mod dispatcher;
mod figures;
mod grouping;
mod memory;
mod pipeline;
mod segment;
mod settings;
mod sorter;
mod worker;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

pub use figures::{Closed, Figures};
pub use pipeline::{Ended, run};
pub use settings::Settings;

/// What is moved, as a whole, to one destination.
pub trait Move: Send {
    /// Where it may go.
    type Destination: Clone + Eq + Hash + Debug + Send + Sync;
    /// What orders the moves to one destination.
    type Order: Ord;

    /// Where it goes.
    fn destination(&self) -> &Self::Destination;

    /// Its place among the moves to its destination.
    fn order(&self) -> Self::Order;

    /// Bytes of memory that it takes.
    fn weight(&self) -> usize;

    /// Whether a destination that has failed is well again once this is done. A part of something that is begun with
    /// again after each failure is no such sign: the next part may fail for ever.
    fn is_progress(&self) -> bool {
        true
    }
}

/// A move's destination.
pub type DestinationOf<M> = <M as Move>::Destination;

/// What a source has.
#[derive(Debug)]
pub enum Pulled<M> {
    /// The next moves, in order of arrival.
    Moves(Vec<M>),
    /// None now; there may be some later.
    Nothing,
    /// None any more. What is under way is finished, destinations that fail are tried until they are parked.
    End,
    /// No more are wanted. What is under way is finished; what cannot be now is left.
    Stop,
}

/// Where moves come from. What it holds outlives the process: a move that is not finished is pulled again by the next run.
pub trait Source: Sync {
    /// What it gives.
    type Move: Move;
    /// What ends the pipeline.
    type Error: Send;

    /// The next moves in order of arrival, of `budget` bytes at most, but one at least if there is any. What is pulled at
    /// once may be mixed up: the sorter puts it in order.
    fn pull(&self, budget: usize) -> Result<Pulled<Self::Move>, Self::Error>;

    /// Returns when there may be something to pull, after `limit` at the latest.
    fn wait(&self, limit: Duration);

    /// These moves are done, and are never to be pulled again.
    fn finish(&self, moves: Vec<Self::Move>) -> Result<(), Self::Error>;

    /// All moves to `destination` that were pulled and not finished are to be pulled again, before any later one.
    fn again(&self, destination: &DestinationOf<Self::Move>) -> Result<(), Self::Error>;
}

/// Where moves go.
pub trait Sink<M: Move>: Sync {
    /// What [`Sink::write`] leaves for [`Sink::sync`].
    type Written;
    /// What ends the pipeline.
    type Error: Send;

    /// Writes moves, which are in order and follow on what was written to the destination before. Of those that are
    /// there already it writes none again.
    fn write(&self, destination: &DestinationOf<M>, moves: &[M]) -> Result<Self::Written, Failure<Self::Error>>;

    /// Makes what was written stay, and then notes that it is there.
    fn sync(&self, destination: &DestinationOf<M>, written: Self::Written) -> Result<(), Failure<Self::Error>>;

    /// The parked destinations that are to be tried again, each once.
    fn wanted_again(&self) -> Result<Vec<DestinationOf<M>>, Self::Error> {
        Ok(Vec::new())
    }

    /// Notes that the destination is given up, and why.
    fn park(&self, destination: &DestinationOf<M>, reason: &str) -> Result<(), Self::Error>;
}

/// Why something was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// The destination does not take it now, for this reason; it is tried again.
    Later(String),
    /// The destination will never take it, for this reason; it is parked.
    Never(String),
    /// The whole pipeline cannot go on.
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
