//! What others may tell a stream that runs, and ask it.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace_flush::Figures;

/// Shared with a stream that runs.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    drain: AtomicBool,
    /// What it has done.
    pub figures: Figures,
}

impl Control {
    /// Ends it after what is under way; the rest waits in its sources.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Ends it once its sources have no more.
    pub fn drain(&self) {
        self.drain.store(true, Ordering::Release);
    }

    /// Whether it was told to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn drains(&self) -> bool {
        self.drain.load(Ordering::Acquire)
    }
}
