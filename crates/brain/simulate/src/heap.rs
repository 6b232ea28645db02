//! Moments in virtual time, ordered for the event queue.

use std::cmp::Ordering;

/// A moment in virtual time, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment(pub f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Moment) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Moment) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
