//! What may be set.

use std::time::Duration;

/// How a pipeline behaves. The defaults suit disks and networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A segment of so many bytes is closed.
    pub max_bytes: usize,
    /// A segment is closed once its first move has waited so long, even where nobody is free to write it.
    pub max_age: Duration,
    /// So many segments are written at once, at most. Threads come and go with the backlog.
    pub workers: usize,
    /// Bytes of all moves that were pulled and are not finished, at most.
    pub memory: usize,
    /// The wait before a destination that failed is tried again; it doubles, up to five seconds.
    pub retry: Duration,
    /// A destination that has failed for so long, tries and waits between them together, is parked.
    pub patience: Duration,
    /// A thread that has had nothing to do for so long ends.
    pub rest: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_bytes: 8 << 20,
            max_age: Duration::from_millis(250),
            workers: 4,
            memory: 64 << 20,
            retry: Duration::from_millis(100),
            patience: Duration::from_secs(60),
            rest: Duration::from_secs(1),
        }
    }
}
