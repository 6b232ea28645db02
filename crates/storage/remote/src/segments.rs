//! The segments in which this process may have frames that are not committed yet.
//!
//! All processes of a store lock bytes of one file in its directory: a process that got a place in a segment shares the byte of the
//! segment's number until it ends, and a process that discards a segment has the byte alone meanwhile. So no segment with a frame
//! that somebody may still commit is discarded, however often the node or the connections break. The node holds no such locks.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use rustix_futex_sync::Mutex;
use terrace_system::lock::ByteLocks;

/// The locks of one target.
pub struct Segments {
    locks: ByteLocks,
    /// Held for one look or change, and for locking a byte, but not during requests.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Segments whose byte this process shares, and whether they were seen to exist since.
    shared: HashMap<u64, bool>,
    /// Segments that this process is discarding. The locks are one opening's, so they do not keep its own threads apart.
    leaving: HashSet<u64>,
}

impl Segments {
    /// The locks in this file.
    pub fn open(path: &Path) -> io::Result<Segments> {
        Ok(Segments { locks: ByteLocks::open(path)?, state: Mutex::default() })
    }

    /// Keeps a segment from being discarded until this process ends. `exists` asks the node whether it is there, since another
    /// process may have discarded it before the lock was taken. Returns false if the place there must not be used.
    pub fn keep(&self, segment: u64, exists: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
        let mut state = self.state.lock();
        match state.shared.get(&segment) {
            Some(true) => return Ok(true),
            Some(false) => {}
            None => {
                if state.leaving.contains(&segment) || !self.locks.try_share(segment as i64)? {
                    return Ok(false);
                }
                // From here on no thread of this process discards it.
                state.shared.insert(segment, false);
            }
        }
        drop(state);
        let exists = exists()?;
        if exists {
            self.state.lock().shared.insert(segment, true);
        }
        Ok(exists)
    }

    /// Runs `discard` unless a process may have frames in the segment that it has not committed; then returns false.
    pub fn discard(&self, segment: u64, discard: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
        let mut state = self.state.lock();
        let is_free = !state.shared.contains_key(&segment) && state.leaving.insert(segment);
        if !is_free {
            return Ok(false);
        }
        let locked = self.locks.try_lock(segment as i64);
        drop(state);
        let discarded = if matches!(locked, Ok(true)) { discard() } else { locked };
        let mut state = self.state.lock();
        state.leaving.remove(&segment);
        // If this fails, the byte stays locked until the process ends, and the segment as well.
        let _ = self.locks.unlock(segment as i64);
        discarded
    }
}
