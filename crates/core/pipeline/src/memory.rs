//! The memory limit of a pipeline.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix_futex_sync::{Condvar, Mutex};

use crate::Figures;

/// The held bytes and their limit.
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

    /// Returns the free bytes; 0 if all bytes are still held after `wait`.
    pub fn free(&self, wait: Duration) -> usize {
        let mut used = self.used.lock();
        if *used >= self.limit {
            (used, _) = self.freed.wait_timeout(used, wait);
        }
        self.limit.saturating_sub(*used)
    }

    /// Takes bytes; the last move may exceed the free bytes.
    pub fn take(&self, bytes: usize) {
        let mut used = self.used.lock();
        *used += bytes;
        // Relaxed: see `Figures`.
        self.figures.peak.fetch_max(*used as u64, Ordering::Relaxed);
    }

    /// Returns bytes to the pool.
    pub fn give(&self, bytes: usize) {
        let mut used = self.used.lock();
        *used = used.saturating_sub(bytes);
        self.freed.notify_all();
    }

    /// Waits until bytes are given back, for at most `wait`; returns whether no bytes are held.
    pub fn is_empty_after(&self, wait: Duration) -> bool {
        let mut used = self.used.lock();
        if *used > 0 {
            (used, _) = self.freed.wait_timeout(used, wait);
        }
        *used == 0
    }
}
