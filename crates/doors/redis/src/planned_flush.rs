//! [`PlannedFlush`]: when all items are to be removed, as `flush_all` with a delay asks.

use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

/// The time at which all items are removed, if a client has asked for that. It ends with the server.
#[derive(Default)]
pub struct PlannedFlush {
    // Held for a look or a change only.
    at: Mutex<Option<Instant>>,
}

impl PlannedFlush {
    /// Plans it in place of an earlier one. A time that never comes is none.
    pub fn plan(&self, delay: Duration) {
        *self.at.lock() = Instant::now().checked_add(delay);
    }

    /// Plans none.
    pub fn cancel(&self) {
        *self.at.lock() = None;
    }

    /// Whether the time has come. It comes once.
    pub fn take_due(&self) -> bool {
        let now = Instant::now();
        self.at.lock().take_if(|at| *at <= now).is_some()
    }
}
