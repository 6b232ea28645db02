//! The bytes that a pipeline may hold.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix_futex_sync::{Condvar, Mutex};

use crate::Figures;

/// Bytes that are held, of those that may be.
pub struct Memory<'a> {
    limit: usize,
    used: Mutex<usize>,
    freed: Condvar,
    figures: &'a Figures,
}

impl<'a> Memory<'a> {
    pub fn new(limit: usize, figures: &'a Figures) -> Self {
        Memory { limit: limit.max(1), used: Mutex::new(0), freed: Condvar::new(), figures }
    }

    /// Bytes that may be taken, which are none where all are held for all of `wait`.
    pub fn free(&self, wait: Duration) -> usize {
        let mut used = self.used.lock();
        if *used >= self.limit {
            (used, _) = self.freed.wait_timeout(used, wait);
        }
        self.limit.saturating_sub(*used)
    }

    /// Takes bytes; the last move may take more than were free.
    pub fn take(&self, bytes: usize) {
        let mut used = self.used.lock();
        *used += bytes;
        self.figures.peak.fetch_max(*used as u64, Ordering::Relaxed);
    }

    /// Gives bytes back.
    pub fn give(&self, bytes: usize) {
        let mut used = self.used.lock();
        *used = used.saturating_sub(bytes);
        self.freed.notify_all();
    }

    /// Whether nothing is held; returns once something was given back, after `wait` at the latest.
    pub fn is_empty_after(&self, wait: Duration) -> bool {
        let mut used = self.used.lock();
        if *used > 0 {
            (used, _) = self.freed.wait_timeout(used, wait);
        }
        *used == 0
    }
}
