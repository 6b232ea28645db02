//! Writes buffered bytes to the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use terrace_system::clock::unix_nanos;

use super::open::{Open, State};
use super::{FileError, FileResult, Files, Shared};
use crate::place::PutOptions;
use crate::{Element, Error, element_of};

/// Bytes that were buffered for longer than this are written.
const MAX_DIRTY_AGE: Duration = Duration::from_secs(5);
const DIRTY_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks whether another process has opened a file with buffered bytes.
const OTHERS_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Starts a thread that writes bytes which were buffered for too long, until `shared` is dropped.
pub fn start_timed_flush(shared: &Arc<Shared>) -> FileResult<()> {
    let weak: Weak<Shared> = Arc::downgrade(shared);
    let run = move || {
        let mut pause = DIRTY_POLL_INTERVAL;
        loop {
            std::thread::sleep(pause);
            let Some(shared) = weak.upgrade() else { return };
            // Relaxed: bytes that are buffered now are seen at the next look.
            let is_clean = shared.kept.load(Ordering::Relaxed) == 0;
            pause = if is_clean { DIRTY_POLL_INTERVAL } else { OTHERS_POLL_INTERVAL };
            if is_clean {
                continue;
            }
            for open in shared.open.all() {
                let mut state = open.state.write();
                let old = state.written.is_some_and(|(since, _)| since.elapsed() > MAX_DIRTY_AGE);
                let is_shared = || shared.open.others.have(open.id) || state.appends && !shared.store.is_alone();
                if state.written.is_some()
                    && (old || is_shared())
                    && let Err(error) = shared.flush(&open, &mut state)
                {
                    tracing::warn!(key = %terrace_format::key::show(&state.key), %error, "buffered bytes could not be written; the next flush of the file returns this error, and they are written later unless the file was removed");
                    state.failed = Some(error);
                }
            }
        }
    };
    let started = std::thread::Builder::new().name("terrace-files".into()).spawn(run);
    started.map(drop).map_err(|e| Error::io("starting a thread")(e).into())
}

impl Files {
    /// Writes the buffered bytes of all files. One that fails does not keep the others from being written.
    ///
    /// # Errors
    /// The first failure. [`Files::unwritten`] names the files.
    pub fn flush(&self) -> FileResult<()> {
        let mut done = Ok(());
        for open in self.shared.open.all() {
            done = done.and(self.shared.flush(&open, &mut open.state.write()));
        }
        done
    }

    /// Returns the keys of the files that have buffered bytes, in their order.
    pub fn unwritten(&self) -> Vec<Vec<u8>> {
        let open = self.shared.open.all().into_iter();
        let key = |state: &State| state.written.is_some().then(|| state.key.clone());
        let mut keys: Vec<_> = open.filter_map(|open| key(&open.state.read())).collect();
        keys.sort_unstable();
        keys
    }
}

impl Shared {
    /// Writes the buffered bytes of a file by one commit.
    pub fn flush(&self, open: &Open, state: &mut State) -> FileResult<()> {
        let Some((_, mtime)) = state.written else { return Ok(()) };
        if state.appends {
            return self.flush_appended(open, state).map(drop);
        }
        let runs = state.dirty.runs(self.store.engine.writer.block_bytes as u64);
        let ranges: Vec<(u64, &[u8])> = runs.iter().map(|(at, run)| (*at, run.as_ref())).collect();
        let written = self.write(open, state, &ranges, mtime);
        if matches!(written, Ok(()) | Err(FileError::Stale(_))) {
            // They are written, or the file is gone and nobody can read them.
            self.drop_kept(open, state, 0, u64::MAX);
        }
        written
    }

    /// Writes those blocks touched by `start..end` that are complete, by one commit. So a stream of writes does not fill the
    /// buffer.
    pub fn flush_whole(&self, open: &Open, state: &mut State, start: u64, end: u64) -> FileResult<()> {
        let Some((_, mtime)) = state.written else { return Ok(()) };
        let whole = state.dirty.whole_blocks(start, end);
        if whole.is_empty() {
            return Ok(());
        }
        let written = self.write(open, state, &whole, mtime);
        let ranges: Vec<(u64, u64)> = whole.iter().map(|(at, block)| (*at, at + block.len() as u64)).collect();
        match written {
            Ok(()) => ranges.into_iter().for_each(|(start, end)| self.drop_kept(open, state, start, end)),
            Err(FileError::Stale(_)) => self.drop_kept(open, state, 0, u64::MAX),
            Err(_) => {}
        }
        written
    }

    /// Writes bytes without buffering them.
    pub fn write_through(&self, open: &Open, state: &State, offset: u64, bytes: &[u8]) -> FileResult<()> {
        self.write(open, state, &[(offset, bytes)], unix_nanos())
    }

    fn write(&self, open: &Open, state: &State, ranges: &[(u64, &[u8])], mtime: i64) -> FileResult<()> {
        let engine = &self.store.engine;
        let object = engine.catalog.object(&state.key)?.filter(|object| object.id == open.id);
        let kept = engine.planning.kept.of(&state.key, object.as_ref())?;
        let policy = engine.planning.policy(&state.key, &PutOptions::clone(&kept).over(&self.options));
        let element = self.element_of(&state.key);
        let written = self.store.write_ranges(&state.key, Some(open.id), ranges, mtime, &policy, element);
        self.of_open(state, written.map(drop).map_err(FileError::from))
    }

    /// Returns the type of a file's elements, if it is known.
    pub fn element_of(&self, key: &[u8]) -> Option<Element> {
        self.options.element.or_else(|| element_of(key))
    }

    /// Translates the result of a commit that expects the open file under its key: a conflict becomes [`FileError::Stale`].
    pub fn of_open<T>(&self, state: &State, result: FileResult<T>) -> FileResult<T> {
        match result {
            Err(FileError::Engine(Error::Conflict { .. } | Error::NotFound { .. })) => {
                Err(FileError::stale(&state.key))
            }
            other => other,
        }
    }

    /// Drops the buffered bytes in `start..end`.
    pub fn drop_kept(&self, open: &Open, state: &mut State, start: u64, end: u64) {
        let before = state.dirty.bytes();
        state.dirty.clear(start, end);
        self.kept.fetch_sub(before - state.dirty.bytes(), Ordering::Relaxed);
        if before > 0 && state.dirty.bytes() == 0 {
            (state.written, state.appends) = (None, false);
            self.open.others.buffer(open.id, false);
        }
    }

    /// Closes a handle.
    pub fn close(&self, open: &Open, flushes: bool) {
        let write = |state: &mut State| {
            if !state.unlinked
                && let Err(error) = self.flush(open, state)
            {
                tracing::error!(key = %terrace_format::key::show(&state.key), %error, "buffered bytes could not be written when the file was closed, and are lost; write the file again");
            }
        };
        if flushes {
            write(&mut open.state.write());
        }
        if self.open.leave(open.id) {
            let mut state = open.state.write();
            write(&mut state);
            self.drop_kept(open, &mut state, 0, u64::MAX);
            if state.unlinked {
                // If this fails, the next `Files` on the store removes it.
                let _ = self.store.internal().remove(&state.key);
            }
        }
    }
}
