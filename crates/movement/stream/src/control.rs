//! The shared handle that controls and observes a running stream.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix_futex_sync::Mutex;
use terrace_pipeline::Figures;

use crate::request::Name;

/// Files of watched directories that have not been delivered and removed.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The number of files.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The path of each file that is blocked rather than merely waiting its turn, and the reason.
    pub stays: Vec<(String, String)>,
}

/// Control and observation of a running stream, shared between threads. All locks are leaves, held for one look or change. The
/// flags are set with release and read with acquire: a thread that sees a flag sees all that its setter did before, such as
/// appended requests.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    drain: AtomicBool,
    /// This and the other locks are leaves, held for a lookup or a change.
    left: Mutex<BTreeMap<usize, Left>>,
    parked: Mutex<HashSet<Name>>,
    files: AtomicU64,
    requests: AtomicU64,
    wanted_again: Mutex<Vec<Name>>,
    /// Progress of the stream so far.
    pub figures: Figures,
}

impl Control {
    /// Stops the stream after the writes in progress. The remaining requests stay in their sources.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Stops the stream once its sources are empty.
    pub fn drain(&self) {
        self.drain.store(true, Ordering::Release);
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn drains(&self) -> bool {
        self.drain.load(Ordering::Acquire)
    }

    /// The files that remain in the directories that the stream pulls.
    pub fn left(&self) -> Left {
        let mut all = Left::default();
        for left in self.left.lock().values() {
            all.files += left.files;
            all.bytes += left.bytes;
            all.stays.extend_from_slice(&left.stays);
        }
        all
    }

    /// The number of files that were delivered completely and removed.
    pub fn files_done(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// The number of requests that were delivered, each counted once.
    pub fn requests_done(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests a retry of a parked destination.
    pub fn retry(&self, destination: Name) {
        self.wanted_again.lock().push(destination);
    }

    pub(crate) fn take_wanted_again(&self) -> Vec<Name> {
        std::mem::take(&mut self.wanted_again.lock())
    }

    pub(crate) fn add_requests_done(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    pub(crate) fn set_left(&self, source: usize, left: Left) {
        self.left.lock().insert(source, left);
    }

    pub(crate) fn add_file_done(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_parked(&self, destination: &Name, is_parked: bool) {
        let mut parked = self.parked.lock();
        match is_parked {
            true => drop(parked.insert(destination.clone())),
            false => drop(parked.remove(destination)),
        }
    }

    /// The number of destinations that this run has parked. Those that an earlier run has parked and this one had nothing for do not
    /// count.
    pub fn parked(&self) -> usize {
        self.parked.lock().len()
    }

    pub(crate) fn is_parked(&self, destination: &Name) -> bool {
        self.parked.lock().contains(destination)
    }
}
