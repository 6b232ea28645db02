//! What a connection does, as far as others must know: who has to give way where there are too many.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is lost with a connection, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Holding {
    /// Nothing: it has not said what it speaks.
    Nothing,
    /// Names of files.
    Names,
    /// Open files.
    Files,
}

/// What a connection does. One thread tells, others look; each number says by itself enough, so that no order is needed.
pub struct Activity {
    begun: Instant,
    /// Since when it waits for a request: milliseconds since it begun, or [`BUSY`].
    waits_since: AtomicU64,
    holding: AtomicU8,
}

/// A request is being read or answered.
const BUSY: u64 = u64::MAX;

impl Activity {
    /// Of a connection that was taken just now.
    pub fn new() -> Activity {
        Activity {
            begun: Instant::now(),
            waits_since: AtomicU64::new(0),
            holding: AtomicU8::new(Holding::Nothing as u8),
        }
    }

    /// A request comes in.
    pub fn hear(&self) {
        self.waits_since.store(BUSY, Ordering::Relaxed);
    }

    /// It is answered.
    pub fn wait(&self, holding: Holding) {
        self.holding.store(holding as u8, Ordering::Relaxed);
        self.waits_since.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// What it holds, and for how long it has been waiting for a request; none while it is at one.
    pub fn idle(&self) -> Option<(Holding, Duration)> {
        let since = self.waits_since.load(Ordering::Relaxed);
        let holding = match self.holding.load(Ordering::Relaxed) {
            0 => Holding::Nothing,
            1 => Holding::Names,
            _ => Holding::Files,
        };
        (since != BUSY).then(|| (holding, self.begun.elapsed().saturating_sub(Duration::from_millis(since))))
    }
}
