//! The activity of a connection, from which the server chooses the connections to close when there are too many.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// State that closing a connection would lose, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Holding {
    /// None: the client has not agreed on a version.
    Nothing,
    /// Numbers of files that are not open.
    Names,
    /// Open files.
    Files,
}

/// The activity of a connection. One thread writes it, others read it. Each atomic is meaningful by itself, so relaxed order suffices.
pub struct Activity {
    begun: Instant,
    /// The start of the wait for a request, in milliseconds since the connection began, or [`BUSY_SINCE`].
    waits_since: AtomicU64,
    holding: AtomicU8,
}

/// The value while a request is being read or answered.
const BUSY_SINCE: u64 = u64::MAX;

impl Activity {
    /// Creates the activity of a new connection.
    pub fn new() -> Activity {
        Activity {
            begun: Instant::now(),
            waits_since: AtomicU64::new(0),
            holding: AtomicU8::new(Holding::Nothing as u8),
        }
    }

    /// Marks the start of a request.
    pub fn begin_request(&self) {
        self.waits_since.store(BUSY_SINCE, Ordering::Relaxed);
    }

    /// Marks the end of a request.
    pub fn end_request(&self, holding: Holding) {
        self.holding.store(holding as u8, Ordering::Relaxed);
        self.waits_since.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns the state that the connection holds and its idle time; `None` while it handles a request.
    pub fn idle(&self) -> Option<(Holding, Duration)> {
        let since = self.waits_since.load(Ordering::Relaxed);
        let holding = match self.holding.load(Ordering::Relaxed) {
            0 => Holding::Nothing,
            1 => Holding::Names,
            _ => Holding::Files,
        };
        (since != BUSY_SINCE).then(|| (holding, self.begun.elapsed().saturating_sub(Duration::from_millis(since))))
    }
}
