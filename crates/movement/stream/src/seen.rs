//! The published figures of a stream, which any process can read.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use terrace::replace;

use crate::control::Control;
use crate::{Error, Result};

/// The figures of the process that runs, or last ran, a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// Completed requests.
    pub requests: u64,
    /// The memory that these took: their bytes and a small overhead for each.
    pub bytes: u64,
    /// Completed requests per second over the last interval.
    pub requests_per_second: f64,
    /// Completed bytes per second over the last interval.
    pub bytes_per_second: f64,
    /// Segments closed because they reached the size limit.
    pub by_size: u64,
    /// Segments closed because they reached the age limit.
    pub by_age: u64,
    /// Segments closed because a worker was idle.
    pub by_idle: u64,
    /// Segments closed because memory was short.
    pub by_memory: u64,
    /// Writes that failed and were retried.
    pub failed: u64,
    /// The peak of bytes in memory.
    pub peak: u64,
    /// Threads that were writing at the last observation.
    pub workers: u64,
    /// The peak number of writing threads.
    pub most_workers: u64,
    /// Files of directories that are not delivered and removed yet.
    pub files_left: u64,
    /// Bytes of these files.
    pub bytes_left: u64,
    /// The first of these files that are blocked, and the reasons.
    pub stays: Vec<(String, String)>,
}

/// The largest number of blocked files that are listed with their reasons.
const MAX_TOLD_FILES: usize = 100;

impl Seen {
    /// Collects the figures, with rates since `before`.
    pub(crate) fn of(control: &Control, before: &(Seen, Instant)) -> Seen {
        let (figures, mut left) = (&control.figures, control.left());
        left.stays.truncate(MAX_TOLD_FILES);
        let mut seen = Seen {
            // Relaxed: mere counts, which need not be of one moment.
            requests: figures.moves.load(Relaxed),
            bytes: figures.bytes.load(Relaxed),
            by_size: figures.by_size.load(Relaxed),
            by_age: figures.by_age.load(Relaxed),
            by_idle: figures.by_idle.load(Relaxed),
            by_memory: figures.by_memory.load(Relaxed),
            failed: figures.failed.load(Relaxed),
            peak: figures.peak.load(Relaxed),
            workers: figures.workers.load(Relaxed),
            most_workers: figures.most_workers.load(Relaxed),
            files_left: left.files,
            bytes_left: left.bytes,
            stays: left.stays,
            ..Seen::default()
        };
        let (before, at) = before;
        let seconds = at.elapsed().as_secs_f64().max(1e-9);
        seen.requests_per_second = seen.requests.saturating_sub(before.requests) as f64 / seconds;
        seen.bytes_per_second = seen.bytes.saturating_sub(before.bytes) as f64 / seconds;
        seen
    }

    /// Saves the figures where other processes read them.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let written = replace(path, text);
        written.map_err(Error::io(format!("writing {}", path.display())))
    }

    /// Loads the saved figures; `None` if the file is missing or unreadable.
    pub(crate) fn load(path: &Path) -> Option<Seen> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}
