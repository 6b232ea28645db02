//! [`Events`]: the events of a watch as records in order.

use std::collections::VecDeque;
use std::sync::Arc;

use etcd_client::{Event, KeyValue, WatchResponse};

use super::keys::Keys;
use super::state::ran_back;
use crate::OrderError;

/// A record, and the revision that put it.
pub(super) struct Arrived {
    pub revision: i64,
    pub record: Arc<[u8]>,
}

/// The effect of an answer of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchResult {
    Events,
    Silent,
    /// Records are missing.
    ListAgain,
}

/// Records that came from a watch and are not read yet.
pub(super) struct Events {
    /// The slot of the last record.
    head: u64,
    /// All events up to this revision have come.
    revision: i64,
    /// A record whose slot has not come. A server may send one revision in several parts.
    half: Option<Arrived>,
    whole: VecDeque<Arrived>,
}

impl Events {
    /// Begins behind a list: with this head, at this revision.
    pub(super) fn new(head: u64, revision: i64) -> Events {
        Events { head, revision, half: None, whole: VecDeque::new() }
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    pub(super) fn len(&self) -> usize {
        self.whole.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    pub(super) fn forget_half(&mut self) {
        self.half = None;
    }

    pub(super) fn take(&mut self, most: usize) -> Vec<Arrived> {
        self.whole.drain(..most.min(self.whole.len())).collect()
    }

    pub(super) fn take_in(&mut self, keys: &Keys, answer: &WatchResponse) -> Result<WatchResult, OrderError> {
        let head = keys.head();
        for event in answer.events() {
            let Some(found) = event.kv() else { continue };
            let is_put = is_put(event);
            let result = match found.key() {
                key if key == head.as_bytes() => self.take_in_head(found, is_put)?,
                key if is_put && keys.parse_record(key).is_some() => self.take_in_record(found),
                // Deleted records were trimmed, and were read before or are in a snapshot.
                _ => WatchResult::Events,
            };
            if result == WatchResult::ListAgain {
                return Ok(result);
            }
        }
        Ok(WatchResult::Events)
    }

    fn take_in_record(&mut self, found: &KeyValue) -> WatchResult {
        let arrived = Arrived { revision: found.mod_revision(), record: Arc::from(found.value()) };
        match self.half.replace(arrived) {
            // Its slot never came.
            Some(_) => WatchResult::ListAgain,
            None => WatchResult::Events,
        }
    }

    /// The head's version is the slot of the record of the same revision.
    fn take_in_head(&mut self, found: &KeyValue, is_put: bool) -> Result<WatchResult, OrderError> {
        let (revision, slot) = (found.mod_revision(), found.version() as u64);
        if !is_put || slot <= self.head {
            return Err(ran_back(format!("its head is at {slot}, and was at {}", self.head)));
        }
        let record = self.half.take().filter(|half| half.revision == revision);
        match record {
            Some(record) if slot == self.head + 1 => {
                (self.head, self.revision) = (slot, revision);
                self.whole.push_back(record);
                Ok(WatchResult::Events)
            }
            _ => Ok(WatchResult::ListAgain),
        }
    }
}

/// A deleted key has no version. (`Event::event_type` panics for a kind of event that it does not know.)
fn is_put(event: &Event) -> bool {
    event.kv().is_some_and(|found| found.version() > 0)
}
