//! [`Follower`]: reads the log, first from a list, then from a watch.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{TxnOp, WatchOptions, WatchStream};
use tokio::time::{Instant, sleep, timeout};

use super::events::{Arrived, Events, WatchResult};
use super::list::Entry;
use super::members::ATTEMPT_TIMEOUT;
use super::state::{Core, get, ran_back, values};
use crate::{OrderError, Records};

/// Reads this many records at once from a list. Each has at most about a MiB, and all must come within an attempt's time.
const RECORDS_PER_READ: usize = 8;

/// A watch that was silent for this long is compared with the log's head: one whose member is cut off may say nothing for ever, and
/// notices of progress do not prove that every event has come.
const SILENCE_BEFORE_COMPARISON: Duration = Duration::from_secs(3);

const PAUSE_AFTER_FAILED_WATCH: Duration = Duration::from_millis(100);

/// Where the reader is.
#[derive(Default)]
pub(super) struct Follower {
    /// The slot of the last record that was returned, and the revision that put it.
    slot: u64,
    slot_revision: i64,
    /// None before the first read, and after a gap: then the log is listed.
    source: Option<Source>,
}

/// The records behind the reader.
struct Source {
    /// Those that were in etcd when the log was listed, and are not read yet.
    listed: VecDeque<Entry>,
    /// Those that came since.
    events: Events,
    watch: Option<WatchStream>,
    /// The member of the watch.
    at: usize,
    /// The time of the last event, or of the last comparison with the head.
    compared: Instant,
    /// The head at the last comparison, if not all records up to it were there.
    missing: Option<u64>,
}

impl Follower {
    pub(super) async fn read(&mut self, core: &Core, after: u64, most: usize) -> Result<Records, OrderError> {
        if self.slot != after {
            (self.slot, self.slot_revision, self.source) = (after, 0, None);
        }
        if self.source.is_none() && !self.list(core).await? {
            return Ok(Records::Trimmed);
        }
        let Some(source) = &mut self.source else { return Ok(Records::Next(Vec::new())) };
        let records = if source.listed.is_empty() {
            if source.fill(core, most, Duration::ZERO).await? == WatchResult::ListAgain {
                self.source = None;
                return Ok(Records::Next(Vec::new()));
            }
            source.events.take(most)
        } else {
            let Some(records) = source.read_listed(core, most).await? else {
                self.source = None;
                return Ok(Records::Trimmed);
            };
            records
        };
        self.slot += records.len() as u64;
        self.slot_revision = records.last().map_or(self.slot_revision, |last| last.revision);
        Ok(Records::Next(records.into_iter().map(|arrived| arrived.record).collect()))
    }

    pub(super) async fn wait(&mut self, core: &Core, after: u64, time: Duration) -> Result<(), OrderError> {
        let Some(source) = self.source.as_mut().filter(|_| self.slot == after) else { return Ok(()) };
        if source.listed.is_empty()
            && source.events.is_empty()
            && source.fill(core, 1, time).await? == WatchResult::ListAgain
        {
            self.source = None;
        }
        Ok(())
    }

    /// Lists the records behind the reader. Returns false if some are gone.
    async fn list(&mut self, core: &Core) -> Result<bool, OrderError> {
        let list = core.list().await?;
        let (head, revision, slot) = (list.state.head, list.state.revision, self.slot);
        if head < slot {
            return Err(ran_back(format!("it ends at record {head}, and this node has {slot}")));
        }
        let Some(entries) = list.after(slot) else { return Ok(false) };
        // A log that was restored from an older copy, and has grown since, has other records here.
        if let Some(other) = entries.iter().find(|entry| entry.revision <= self.slot_revision) {
            let what =
                format!("a record that was put before record {slot}, at revision {}, is behind it now", other.revision);
            return Err(ran_back(what));
        }
        self.source = Some(Source {
            listed: entries.into(),
            events: Events::new(head, revision),
            watch: None,
            at: core.members.preferred(),
            compared: Instant::now(),
            missing: None,
        });
        Ok(true)
    }
}

impl Source {
    /// Reads the next records of the list. None if one is gone.
    async fn read_listed(&mut self, core: &Core, most: usize) -> Result<Option<Vec<Arrived>>, OrderError> {
        let wanted: Vec<&Entry> = self.listed.iter().take(most.clamp(1, RECORDS_PER_READ)).collect();
        let gets: Vec<TxnOp> =
            wanted.iter().map(|entry| get(core.keys.record(entry.incarnation, entry.number))).collect();
        let answer = core.members.txn(etcd_client::Txn::new().and_then(gets)).await?;
        let mut records = Vec::with_capacity(wanted.len());
        for (entry, found) in wanted.iter().zip(values(&answer)) {
            let Some(found) = found else { return Ok(None) };
            records.push(Arrived { revision: entry.revision, record: Arc::from(found.value()) });
        }
        self.listed.drain(..records.len());
        Ok(Some(records))
    }

    /// Takes events from the watch, which it opens if there is none: those that are there, and if there are none, the first that come
    /// within this time.
    async fn fill(&mut self, core: &Core, most: usize, time: Duration) -> Result<WatchResult, OrderError> {
        let end = Instant::now() + time;
        loop {
            let left =
                if self.events.is_empty() { end.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            match self.next(core, left).await? {
                WatchResult::ListAgain => return Ok(WatchResult::ListAgain),
                WatchResult::Silent if left.is_zero() => return Ok(WatchResult::Silent),
                WatchResult::Events if self.events.len() >= most => return Ok(WatchResult::Events),
                WatchResult::Events | WatchResult::Silent => {}
            }
        }
    }

    /// Takes one answer of the watch, which may come within this time.
    async fn next(&mut self, core: &Core, time: Duration) -> Result<WatchResult, OrderError> {
        let Some(watch) = &mut self.watch else { return self.open(core, time).await };
        match timeout(time.min(SILENCE_BEFORE_COMPARISON), watch.message()).await {
            Err(_) if self.compared.elapsed() >= SILENCE_BEFORE_COMPARISON => self.compare(core).await,
            Err(_) => Ok(WatchResult::Silent),
            Ok(Ok(Some(answer))) if !answer.canceled() => {
                let result = self.events.take_in(&core.keys, &answer)?;
                core.saw_head(self.events.head());
                self.compared = Instant::now();
                Ok(result)
            }
            // Compacted: what is missing is no event any more. The reason is empty then.
            Ok(Ok(Some(answer))) if answer.compact_revision() > 0 => Ok(WatchResult::ListAgain),
            Ok(Ok(Some(answer))) => Ok(self.give_up(core, answer.cancel_reason(), time).await),
            Ok(Ok(None)) => Ok(self.give_up(core, "it has ended", time).await),
            Ok(Err(failed)) => Ok(self.give_up(core, &failed.to_string(), time).await),
        }
    }

    /// Opens a watch behind the last whole revision.
    async fn open(&mut self, core: &Core, time: Duration) -> Result<WatchResult, OrderError> {
        let (from, to) = core.keys.watched();
        let options =
            WatchOptions::new().with_range(to).with_start_revision(self.events.revision() + 1).with_fragment();
        let opened = timeout(ATTEMPT_TIMEOUT, async {
            let mut member = core.members.member(self.at).await?;
            member.watch.watch(from, Some(options)).await.map_err(|e| core.members.classify(self.at, &e))
        });
        match opened.await {
            Ok(Ok(watch)) => {
                self.watch = Some(watch);
                Ok(WatchResult::Events)
            }
            Ok(Err(failed @ (OrderError::Server { .. } | OrderError::Refused { .. }))) => Err(failed),
            Ok(Err(failed)) => Ok(self.give_up(core, &failed.to_string(), time).await),
            Err(_) => Ok(self.give_up(core, "it takes too long", time).await),
        }
    }

    /// Lets the next watch be one of another member.
    async fn give_up(&mut self, core: &Core, reason: &str, time: Duration) -> WatchResult {
        tracing::debug!(reason, "a watch of the shared log has failed");
        self.watch = None;
        // A fragment without its rest comes again, as the next watch begins with its revision.
        self.events.forget_half();
        core.members.disconnect(self.at);
        self.at = core.members.after(self.at);
        sleep(PAUSE_AFTER_FAILED_WATCH.min(time)).await;
        WatchResult::Silent
    }

    /// Compares a silent watch with the head. If records are missing twice, the watch has failed.
    async fn compare(&mut self, core: &Core) -> Result<WatchResult, OrderError> {
        let head = core.state().await?.head;
        self.compared = Instant::now();
        let arrived = self.events.head();
        if head < arrived {
            return Err(ran_back(format!("it ends at record {head}, and this node has seen {arrived}")));
        }
        let was_missing = self.missing.replace(head).is_some_and(|missing| missing > arrived);
        if head == arrived {
            self.missing = None;
        } else if was_missing {
            return Ok(self.give_up(core, "it is silent", Duration::ZERO).await);
        }
        Ok(WatchResult::Silent)
    }
}
