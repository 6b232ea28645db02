//! The record by which a process says to other nodes that it still delivers a stream.
//!
//! Commits of progress are fenced: they expect that a claim still holds. Writes to a destination are not. So a process that was paused, or
//! whose node was away, must not write what it remembers: others may have delivered since, and trimmed what it would have to deliver first.
//! A process delivers only while its last heartbeat is younger than [`MAX_UNHEARD_TIME`], and others take over only when they have heard
//! nothing for [`MAX_SILENCE`], which is longer.

use std::thread;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace::{Attributes, Object, Store};
use terrace_system::clock;

use crate::claim::{Claim, find, is_there};
use crate::{Error, Result};

/// A process whose record has not changed for this long counts as dead, for those that could have seen a change.
pub const MAX_SILENCE: Duration = Duration::from_secs(10);
/// A process changes its record this often.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// A process delivers nothing once its last heartbeat began this long ago.
const MAX_UNHEARD_TIME: Duration = Duration::from_secs(5);

/// A record that is older than this is a dead process's. Only for people: the clocks of two nodes may differ by more.
const MAX_RECORD_AGE: Duration = Duration::from_secs(30);

/// The time between two looks at the record of a process that may have died.
const LISTENING_INTERVAL: Duration = Duration::from_millis(200);

pub const WORKERS_FOLDER: &str = "/workers";
pub const PLACE_ATTRIBUTE: &str = "to";

/// The heartbeats of this process.
pub struct Heartbeat {
    store: Store,
    key: Vec<u8>,
    /// Where the process delivers to, in words.
    place: String,
    /// A leaf, held for a look or a change.
    times: Mutex<Times>,
}

/// Times of a clock that counts while the machine sleeps.
#[derive(Default)]
struct Times {
    /// When the last heartbeat that succeeded began.
    beaten: Option<Duration>,
    /// The same, once this process has seen that its claims hold.
    confirmed: Option<Duration>,
}

impl Heartbeat {
    /// The heartbeats of a node's process that delivers the stream whose objects lie below `folder` to a place.
    pub fn new(store: &Store, folder: &str, node: &str, place: String) -> Heartbeat {
        let key = record_key(folder, node);
        Heartbeat { store: store.clone(), key, place, times: Mutex::default() }
    }

    /// Where the process delivers to.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Changes the record if that is due, and if the claim still holds. Returns when the last heartbeat began.
    pub fn beat(&self, claim: Option<&Claim>) -> Result<Duration> {
        if let Some(beaten) = self.times.lock().beaten.filter(|beaten| age(*beaten) < HEARTBEAT_INTERVAL) {
            return Ok(beaten);
        }
        // Before the record changes: others count from when they see it.
        let begun = clock::boottime();
        let mut attributes = Attributes::now();
        attributes.user.insert(PLACE_ATTRIBUTE.into(), self.place.clone());
        let mut batch = self.store.batch();
        if let Some(claim) = claim {
            claim.guard(&mut batch);
        }
        batch.replace(&self.key, 0, attributes)?;
        batch.commit()?;
        self.times.lock().beaten = Some(begun);
        Ok(begun)
    }

    /// Notes that after a heartbeat that began then, this process's claims held.
    pub fn confirm(&self, begun: Duration) {
        self.times.lock().confirmed = Some(begun);
    }

    /// Returns whether this process may deliver: no other one can have taken over.
    pub fn is_fresh(&self) -> bool {
        self.times.lock().confirmed.is_some_and(|confirmed| age(confirmed) < MAX_UNHEARD_TIME)
    }

    /// Removes the record, if there was a heartbeat.
    pub fn end(&self) {
        if self.times.lock().beaten.is_none() {
            return;
        }
        if let Err(error) = self.store.remove(&self.key) {
            // Others wait until it has been silent for a while.
            tracing::debug!(%error, "the record of a delivery was not removed");
        }
    }
}

fn age(time: Duration) -> Duration {
    clock::boottime().saturating_sub(time)
}

/// The key of the record of a node's process.
pub fn record_key(folder: &str, node: &str) -> Vec<u8> {
    format!("{folder}{WORKERS_FOLDER}/{node}").into_bytes()
}

/// Returns whether the record of a node's process says that it still delivers, without listening. None if it has no record.
pub fn is_beating(store: &Store, folder: &str, node: &str) -> Result<Option<bool>> {
    let record = find(store, &record_key(folder, node))?;
    let age = |record: &Object| Duration::from_nanos(clock::unix_nanos().abs_diff(record.attributes.mtime));
    Ok(record.map(|record| age(&record) < MAX_RECORD_AGE))
}

/// Listens until a node's process says that it still delivers, or has been silent for so long that it delivers no more.
pub fn is_silent(store: &Store, folder: &str, node: &str) -> Result<bool> {
    let generation = || Ok::<_, Error>(find(store, &record_key(folder, node))?.map(|record| record.generation));
    let before = generation()?;
    if before.is_none() && is_there(store, node)? {
        // It runs a command that takes a moment, such as one that drops requests.
        return Ok(false);
    }
    // A number of looks, not a time: nobody was heard while the log did not answer.
    for _ in 0..MAX_SILENCE.as_millis() / LISTENING_INTERVAL.as_millis() {
        if generation()? != before {
            return Ok(false);
        }
        thread::sleep(LISTENING_INTERVAL);
    }
    Ok(true)
}
