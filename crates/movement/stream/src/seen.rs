//! What is seen of a stream from outside: by whoever asks, in any process.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::control::Control;
use crate::{Error, Result};

/// What the process that runs, or last ran, a stream has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// Requests that are done.
    pub requests: u64,
    /// Bytes that these took in memory: their own and a little for each.
    pub bytes: u64,
    /// Requests done in a second, lately.
    pub requests_per_second: f64,
    /// Bytes done in a second, lately.
    pub bytes_per_second: f64,
    /// Segments closed because they were large.
    pub by_size: u64,
    /// Segments closed because they were old.
    pub by_age: u64,
    /// Segments closed because somebody was free to write them.
    pub by_idle: u64,
    /// Segments closed because memory was short.
    pub by_memory: u64,
    /// Writes that failed and were tried again.
    pub failed: u64,
    /// The most bytes that were in memory at once.
    pub peak: u64,
    /// Threads that wrote when it was looked last.
    pub workers: u64,
    /// Of these at once, the most.
    pub most_workers: u64,
    /// Files of directories that were not delivered and removed yet.
    pub files_left: u64,
    /// Bytes of these.
    pub bytes_left: u64,
    /// Of these, the first of those that are not merely on their way, and why they are not taken.
    pub stays: Vec<(String, String)>,
}

/// Files of which it is told why they are not taken.
const MAX_TOLD_FILES: usize = 100;

impl Seen {
    /// What was done, and how fast since `before` was seen.
    pub(crate) fn of(control: &Control, before: &(Seen, Instant)) -> Seen {
        let (figures, mut left) = (&control.figures, control.left());
        left.stays.truncate(MAX_TOLD_FILES);
        let mut seen = Seen {
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

    /// Leaves it where others look.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let text = serde_json::to_vec(self).unwrap_or_default();
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
        written.map_err(Error::io(format!("writing {}", path.display())))
    }

    /// What was left there; none where nothing was, or nothing that is understood.
    pub(crate) fn load(path: &Path) -> Option<Seen> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}
