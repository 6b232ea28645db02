//! What others may tell a stream that runs, and ask it.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix_futex_sync::Mutex;
use terrace_pipeline::Figures;

use crate::request::Name;

/// Files of watched directories that are not delivered and removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of those that are not merely on their way, the path and why they are not taken.
    pub stays: Vec<(String, String)>,
}

/// Shared with a stream that runs.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    drain: AtomicBool,
    left: Mutex<BTreeMap<usize, Left>>,
    parked: Mutex<HashSet<Name>>,
    files: AtomicU64,
    requests: AtomicU64,
    wanted_again: Mutex<Vec<Name>>,
    /// What it has done.
    pub figures: Figures,
}

impl Control {
    /// Ends it after what is under way; the rest waits in its sources.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Ends it once its sources have no more.
    pub fn drain(&self) {
        self.drain.store(true, Ordering::Release);
    }

    /// Whether it was told to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn drains(&self) -> bool {
        self.drain.load(Ordering::Acquire)
    }

    /// What is left in the directories that it pulls.
    pub fn left(&self) -> Left {
        let mut all = Left::default();
        for left in self.left.lock().values() {
            all.files += left.files;
            all.bytes += left.bytes;
            all.stays.extend_from_slice(&left.stays);
        }
        all
    }

    /// Files that were delivered whole and removed.
    pub fn files_done(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Requests that were delivered, each of them once.
    pub fn requests_done(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Has a destination that was given up tried again.
    pub fn retry(&self, destination: Name) {
        self.wanted_again.lock().push(destination);
    }

    pub(crate) fn take_wanted_again(&self) -> Vec<Name> {
        std::mem::take(&mut self.wanted_again.lock())
    }

    pub(crate) fn tell_requests_done(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    pub(crate) fn tell_left(&self, source: usize, left: Left) {
        self.left.lock().insert(source, left);
    }

    pub(crate) fn tell_file_done(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tell_parked(&self, destination: &Name, is_parked: bool) {
        let mut parked = self.parked.lock();
        match is_parked {
            true => drop(parked.insert(destination.clone())),
            false => drop(parked.remove(destination)),
        }
    }

    pub(crate) fn is_parked(&self, destination: &Name) -> bool {
        self.parked.lock().contains(destination)
    }
}
