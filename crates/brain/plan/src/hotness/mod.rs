//! The hotness of ranges (HReplica IV-A: data-centric scoring): a score that each access raises and that decays over
//! time.
//!
//! [`Hotness`] keeps the scores of keys. [`Ranges`] keeps the scores of an object's blocks, in finer parts for the
//! hottest blocks. [`spans`] returns the parts in which an object is placed, in their order. [`promotions`] and
//! [`demotions`] return the moves between tiers that are worthwhile. A score counts accesses to the whole range; the
//! weight of an access halves after each half-life.

mod moves;
mod ranges;
mod spans;
mod table;

pub use moves::{Entry, Move, demotions, promotions};
pub use ranges::Ranges;
pub use spans::{Span, spans};
pub use table::Hotness;

/// Returns the expected number of reads in the next half-life at the present rate: a constant rate of `r` accesses per
/// half-life keeps the score at `r / ln 2`.
pub fn reads_to_come(score: f64) -> f64 {
    score * std::f64::consts::LN_2
}
