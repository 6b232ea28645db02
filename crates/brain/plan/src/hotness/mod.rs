//! How hot ranges are (HReplica IV-A: data-centric scoring): a score that each access raises and time halves.
//!
//! [`Hotness`] keeps the scores of keys, [`Ranges`] those of an object's blocks, finer for the hottest; [`spans`] tells
//! in which order and at which splits an object is to be placed; [`promotions`] and [`demotions`] what is worth moving
//! between tiers. A score is a number of accesses to the whole range, each worth half after a half-life.

mod moves;
mod ranges;
mod spans;
mod table;

pub use moves::{Entry, Move, demotions, promotions};
pub use ranges::Ranges;
pub use spans::{Span, spans};
pub use table::Hotness;

/// How often a range is likely to be read in the half-life to come, if things go on as they did: a rate of `r` accesses
/// in a half-life keeps the score at `r / ln 2`.
pub fn reads_to_come(score: f64) -> f64 {
    score * std::f64::consts::LN_2
}
