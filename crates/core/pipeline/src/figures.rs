//! What a pipeline has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a segment was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It was large.
    Size,
    /// Its first move had waited long.
    Age,
    /// Somebody was free to write it.
    Idle,
    /// Memory was short.
    Memory,
}

/// Counts that others may look at while the pipeline runs.
#[derive(Debug, Default)]
pub struct Figures {
    /// Moves that were finished.
    pub moves: AtomicU64,
    /// Bytes of these.
    pub bytes: AtomicU64,
    /// Segments closed because they were large.
    pub by_size: AtomicU64,
    /// Segments closed because they were old.
    pub by_age: AtomicU64,
    /// Segments closed because somebody was free to write them.
    pub by_idle: AtomicU64,
    /// Segments closed because memory was short.
    pub by_memory: AtomicU64,
    /// Writes that failed and are tried again.
    pub failed: AtomicU64,
    /// The most bytes that were held at once.
    pub peak: AtomicU64,
    /// Threads that write now.
    pub workers: AtomicU64,
    /// The most of them at once.
    pub most_workers: AtomicU64,
}

impl Figures {
    pub(crate) fn closed(&self, why: Closed) {
        let count = match why {
            Closed::Size => &self.by_size,
            Closed::Age => &self.by_age,
            Closed::Idle => &self.by_idle,
            Closed::Memory => &self.by_memory,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn finished(&self, moves: usize, bytes: usize) {
        self.moves.fetch_add(moves as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn worker_begins(&self) {
        let now = self.workers.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_workers.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn worker_ends(&self) {
        self.workers.fetch_sub(1, Ordering::Relaxed);
    }
}
