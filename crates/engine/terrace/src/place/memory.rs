//! Lessons learned from streams, kept in the store's directory for later processes.

use std::fs;
use std::path::Path;

use terrace_predict::Memory;
use terrace_system::replace;

/// The file of the store's directory that holds them.
pub(super) const REMEMBERED_FILE: &str = "predictor.streams";
/// The number of streams that are kept: the most recent ones.
const MAX_KEPT_STREAMS: usize = 256;

/// Streams by name, with their memory.
pub(super) type Memories = Vec<(u64, Memory)>;

/// Reads the kept streams. An unreadable file counts as empty, because it only saves time.
pub(super) fn read(file: &Path) -> Memories {
    fs::read(file).ok().and_then(|bytes| postcard::from_bytes(&bytes).ok()).unwrap_or_default()
}

/// Writes these streams to the file, and keeps those that other processes have written. An error is ignored, because the file
/// only saves learning.
pub(super) fn keep(file: &Path, mut memories: Memories) {
    let mine = memories.len();
    for (name, memory) in read(file) {
        if memories[..mine].iter().all(|(other, _)| *other != name) {
            memories.push((name, memory));
        }
    }
    memories.truncate(MAX_KEPT_STREAMS);
    let _ = replace(file, postcard::to_stdvec(&memories).unwrap_or_default()); // see above
}
