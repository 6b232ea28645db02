//! Maintenance that no other process does: scheduled scrubs, checks for emptied targets, and removal of leftovers of dead
//! processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};
use terrace::report::Scrubbed;
use terrace::{Error, Store, fail};
use terrace_datasets::Datasets;

use crate::held::Held;

/// The interval at which the node checks its targets, and whether a scrub is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The interval at which the node removes leftovers, if no other process has the store open.
const TIDY_INTERVAL_SECONDS: u64 = 600;
/// A scrub rests for this many times as long as it reads, so that jobs keep most of the targets' bandwidth.
const SCRUB_REST_FACTOR: u32 = 3;

/// A request to stop, which ends all waits.
#[derive(Default)]
pub struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Asks to stop.
    pub fn set(&self) {
        *self.is_set.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for this long, or until the stop. Returns whether to go on.
    pub fn wait(&self, time: Duration) -> bool {
        let (is_set, _) = self.changed.wait_timeout_while(self.is_set.lock(), time, |is_set| !*is_set);
        !*is_set
    }
}

/// The thread that does the work.
pub struct Upkeep {
    held: Arc<Held>,
    stop: Arc<Stop>,
    scrub_interval: Option<Duration>,
    tidy_interval: Duration,
}

impl Upkeep {
    /// Creates the upkeep of the held store.
    pub fn new(held: Arc<Held>, stop: Arc<Stop>, scrub_interval: Option<Duration>) -> Upkeep {
        // Tests set a shorter interval.
        let tidy_interval = Duration::from_secs(fail::limit("TERRACE_NODE_TIDY_SECONDS", TIDY_INTERVAL_SECONDS));
        Upkeep { held, stop, scrub_interval, tidy_interval }
    }

    /// Works until the stop.
    ///
    /// # Errors
    /// If the store cannot be opened again.
    pub fn run(&self) -> Result<(), Error> {
        let mut tidied = Instant::now();
        let mut scrub_due = Instant::now();
        loop {
            if let Some(store) = &*self.held.read() {
                // The replicas that a target has lost become pending by this check, and the mover makes them.
                if let Err(error) = store.check_targets() {
                    tracing::warn!(%error, "the targets cannot be looked at");
                }
                if let Some(interval) = self.scrub_interval.filter(|_| Instant::now() >= scrub_due) {
                    scrub_due = Instant::now() + self.scrub(store, interval);
                }
            }
            if tidied.elapsed() >= self.tidy_interval {
                self.tidy()?;
                tidied = Instant::now();
            }
            let until_scrub = match self.scrub_interval {
                Some(_) => scrub_due.saturating_duration_since(Instant::now()),
                None => CHECK_INTERVAL,
            };
            if !self.stop.wait(until_scrub.min(CHECK_INTERVAL).min(self.tidy_interval)) {
                return Ok(());
            }
        }
    }

    /// Scrubs the next part if it is due. Returns the time until the next one.
    fn scrub(&self, store: &Store, interval: Duration) -> Duration {
        let mut read_since = Instant::now();
        let go_on = |_: &Scrubbed| {
            let go_on = self.stop.wait(read_since.elapsed() * SCRUB_REST_FACTOR);
            read_since = Instant::now();
            go_on
        };
        match store.scrub_next_part(interval, go_on) {
            Ok((found, until_next)) => {
                if let Some(Scrubbed { checked, bad, repaired, lost, .. }) = found.filter(|found| found.bad > 0) {
                    tracing::warn!(checked, bad, repaired, lost, "a scrub found bad replicas");
                }
                until_next
            }
            Err(error) => {
                tracing::warn!(%error, "a scrub ended early, and is repeated");
                CHECK_INTERVAL
            }
        }
    }

    /// Opens the store again and updates datasets, if no other process has it open. An opener that is alone frees the
    /// leftovers of dead processes: frames without a commit, unfinished writes, temporary files. As long as the node keeps
    /// the store open, no other opener is alone.
    fn tidy(&self) -> Result<(), Error> {
        let mut held = self.held.write();
        let Some(store) = held.take_if(|store| store.is_alone()) else { return Ok(()) };
        let dir = store.dir().to_owned();
        // It is closed only if nothing else in this process uses it.
        drop(store);
        let store = Store::open(&dir)?;
        store.work_in_background();
        // This changes contents, so it comes before.
        settle_datasets(&store);
        store.stay_in_background();
        *held = Some(store);
        Ok(())
    }
}

/// Updates the replicas of datasets that the writing processes have left behind.
fn settle_datasets(store: &Store) {
    let datasets = Datasets::new(store);
    let settle = |name: &str| datasets.open(name).and_then(|dataset| dataset.settle());
    match datasets.list() {
        Ok(names) => {
            for name in names {
                if let Err(error) = settle(&name) {
                    tracing::warn!(dataset = name, %error, "its replicas are not updated");
                }
            }
        }
        Err(error) => tracing::warn!(%error, "the datasets cannot be listed"),
    }
}
