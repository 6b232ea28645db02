//! Counters of a pipeline.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a segment was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It reached the size limit.
    Size,
    /// Its first move reached the age limit.
    Age,
    /// A worker was free to write it.
    Idle,
    /// Memory was short.
    Memory,
}

/// Counters that other threads may read while the pipeline runs. They are changed and read with `Relaxed`: nothing is decided by them, and
/// readers may see some of them later than others.
#[derive(Debug, Default)]
pub struct Figures {
    /// The number of finished moves.
    pub moves: AtomicU64,
    /// The bytes of the finished moves.
    pub bytes: AtomicU64,
    /// The number of segments closed because of their size.
    pub by_size: AtomicU64,
    /// The number of segments closed because of their age.
    pub by_age: AtomicU64,
    /// The number of segments closed because a worker was free.
    pub by_idle: AtomicU64,
    /// The number of segments closed because memory was short.
    pub by_memory: AtomicU64,
    /// The number of failed writes that are retried.
    pub failed: AtomicU64,
    /// The peak of the held bytes.
    pub peak: AtomicU64,
    /// The number of writing threads.
    pub workers: AtomicU64,
    /// The peak number of writing threads.
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
