//! The settings of a pipeline.

use std::time::Duration;

/// The settings of a pipeline. The defaults suit disks and networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The size in bytes at which a segment is closed.
    pub max_bytes: usize,
    /// The age of its first move at which a segment is closed even if no worker is free.
    pub max_age: Duration,
    /// The maximum number of segments written at once. The pipeline starts and ends threads with the backlog.
    pub workers: usize,
    /// The maximum number of bytes of pulled and unfinished moves.
    pub memory: usize,
    /// The initial backoff delay after a failure; it doubles up to five seconds.
    pub retry: Duration,
    /// The duration after which a failed destination is parked, counting attempts and the waits between them.
    pub patience: Duration,
    /// The idle time after which a thread ends.
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
