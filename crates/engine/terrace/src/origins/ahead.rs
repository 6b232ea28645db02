//! Reading ahead: while a file of an origin is read in order, threads fetch and store the next bytes before the reader asks for them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix_futex_sync::Mutex;
use terrace_catalog::{Extent, Object};
use terrace_format::key;

use super::window::{MAX_AHEAD_BYTES, PIECE_BYTES};
use super::{Origins, is_at_origin};
use crate::Result;
use crate::report::TierState;

/// The most threads that fetch at a time. Each has at most [`PIECE_BYTES`] in memory.
const MAX_AHEAD_THREADS: usize = 4;
/// The most pieces that wait for a thread. If files are read in order by more readers than that, some wait for their bytes.
const MAX_WAITING_PIECES: usize = 32;
/// Bytes are fetched ahead only if a target has room for this many, so that they are not fetched in vain.
const MIN_FREE_BYTES: u64 = 4 * MAX_AHEAD_BYTES;

/// The pieces that are to be fetched, and the threads that do it. A leaf: held for an update, and while a thread is started. The
/// threads start when there is a piece, and end when there is none.
#[derive(Default)]
pub(super) struct Ahead(Mutex<Work>);

#[derive(Default)]
struct Work {
    waiting: VecDeque<Piece>,
    threads: Vec<JoinHandle<()>>,
    /// The number of threads that take pieces.
    running: usize,
    is_stopping: bool,
}

/// A range of a file.
struct Piece {
    key: Vec<u8>,
    object: Object,
    range: Range<u64>,
}

impl Ahead {
    /// Returns the next piece. If there is none, the calling thread ends.
    fn next(&self) -> Option<Piece> {
        let mut work = self.0.lock();
        let next = work.waiting.pop_front();
        if next.is_none() {
            work.running -= 1;
        }
        next
    }

    fn clear(&self) {
        self.0.lock().waiting.clear();
    }
}

impl Origins {
    /// Notes a read of an object, whose bytes were in these extents or have been fetched. Has the next bytes fetched if they are at an
    /// origin and the object is read in order.
    pub fn note_read(self: &Arc<Self>, key: &[u8], object: &Object, extents: &[Extent], offset: u64, length: u64) {
        if length == 0 || !self.is_any() || !is_at_origin(object) {
            return;
        }
        self.recency.touch(object.id, extents.iter().map(|extent| extent.offset));
        let Some(range) = self.courses.lock().next_ahead(object, offset, offset + length) else { return };
        if self.has_room_ahead() {
            self.ask_ahead(key, object, range);
        }
    }

    fn has_room_ahead(&self) -> bool {
        let mut devices = self.planning.tiers.devices.iter();
        devices.any(|device| device.state() == TierState::Ok && device.free() >= MIN_FREE_BYTES)
    }

    /// Has threads fetch a range. Without a thread, the reader fetches it.
    fn ask_ahead(self: &Arc<Self>, key: &[u8], object: &Object, range: Range<u64>) {
        let mut work = self.ahead.0.lock();
        let mut start = range.start;
        while start < range.end && !work.is_stopping && work.waiting.len() < MAX_WAITING_PIECES {
            let end = ((start / PIECE_BYTES + 1) * PIECE_BYTES).min(range.end);
            work.waiting.push_back(Piece { key: key.to_vec(), object: object.clone(), range: start..end });
            start = end;
            if work.running == MAX_AHEAD_THREADS {
                continue;
            }
            work.threads.retain(|thread| !thread.is_finished());
            let origins = self.clone();
            let started = thread::Builder::new().name("terrace-origin".into()).spawn(move || origins.fetch_pieces());
            match started {
                Ok(thread) => {
                    work.threads.push(thread);
                    work.running += 1;
                }
                Err(error) if work.running == 0 => {
                    tracing::debug!(%error, "nothing is fetched ahead, because no thread was started");
                    return work.waiting.clear();
                }
                Err(_) => {}
            }
        }
    }

    fn fetch_pieces(&self) {
        while let Some(Piece { key, object, range }) = self.ahead.next() {
            match self.fetch_piece(&key, &object, range) {
                Ok(true) => {}
                // The reader fetches what is missing, and gets the error.
                Ok(false) => self.ahead.clear(),
                Err(error) => {
                    tracing::debug!(key = %key::show(&key), %error, "reading ahead of an origin failed");
                    self.ahead.clear();
                }
            }
        }
    }

    /// Fetches and stores what is missing in a range. Returns false if there was no room for it.
    fn fetch_piece(&self, key: &[u8], object: &Object, range: Range<u64>) -> Result<bool> {
        let Some(source) = self.source_of(key, object)? else { return Ok(true) };
        let _lock = self.wait_to_fetch(object, &range);
        // For another object, nothing that is fetched would be stored.
        if self.catalog.object(key)?.is_none_or(|now| now.id != object.id) {
            return Ok(true);
        }
        let extents = self.cached(key, object, &range)?;
        let stops = extents.iter().map(|extent| extent.offset).chain([range.end]);
        let starts = [range.start].into_iter().chain(extents.iter().map(Extent::end));
        for gap in starts.zip(stops).map(|(start, stop)| start..stop).filter(|gap| !gap.is_empty()) {
            let mut bytes = vec![0; (gap.end - gap.start) as usize];
            self.fetch(&source, key, gap.start, &mut bytes)?;
            terrace_system::fail::point("origin:ahead");
            if !self.store(key, object, gap.start, &bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends reading ahead. Waits for the pieces that are being fetched.
    pub fn stop_ahead(&self) {
        let threads = {
            let mut work = self.ahead.0.lock();
            work.is_stopping = true;
            work.waiting.clear();
            std::mem::take(&mut work.threads)
        };
        for thread in threads {
            // A panic there has been printed; nothing is left to do about it.
            let _ = thread.join();
        }
    }

    /// Forgets the threads in a forked process, which has none.
    pub fn forget_ahead(&self) {
        if let Some(mut work) = self.ahead.0.try_lock() {
            std::mem::forget(std::mem::take(&mut work.threads));
        }
    }
}
