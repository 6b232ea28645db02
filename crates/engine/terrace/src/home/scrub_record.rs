//! The record of scrubs: a file in the store's directory with the progress of this round and the findings of the last one. If the file is
//! lost, a new round begins.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace_system::clock::unix_seconds;
use terrace_system::replace_durably;

use super::bad_replica::{BadReplica, MAX_LISTED_REPLICAS};
use crate::report::{Lacking, LastScrub, Scrubbed};

/// The file's name in the store's directory.
const RECORD_FILE: &str = "scrubbed";
/// The approximate time between two parts: short, so that little is repeated after a restart.
const PART_INTERVAL_SECONDS: u64 = 3600;
/// The largest number of parts of a round, because each part walks over the whole catalog.
const MAX_PARTS: u64 = 168;

/// The progress and the findings of scrubs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubRecord {
    /// The time of a whole round in seconds; 0 if no schedule has run.
    #[serde(default)]
    pub interval: u64,
    /// When the current round began, in seconds since 1970.
    #[serde(default)]
    begun: u64,
    /// The number of parts of this round, and the number of finished parts.
    #[serde(default)]
    parts: u64,
    #[serde(default)]
    done: u64,
    /// Bad replicas of this round, and of the last whole one, that were not replaced, by [`BadReplica::line`]. Of many, some.
    #[serde(default)]
    unreplaced: Vec<String>,
    #[serde(default)]
    last_unreplaced: Vec<String>,
    /// The findings of this round so far.
    #[serde(default)]
    pub found: Scrubbed,
    /// The last whole round.
    #[serde(default)]
    pub last: Option<LastScrub>,
}

impl ScrubRecord {
    /// Reads the record of the store in `dir`. Returns an empty one if it is missing or unreadable.
    pub fn read(dir: &Path) -> ScrubRecord {
        fs::read_to_string(dir.join(RECORD_FILE)).ok().and_then(|text| toml::from_str(&text).ok()).unwrap_or_default()
    }

    pub fn write(&self, dir: &Path) {
        // Without the file, the replicas are verified again sooner than necessary.
        if let Err(error) = self.replace(dir) {
            tracing::debug!(%error, "the state of the scrub schedule could not be written");
        }
    }

    fn replace(&self, dir: &Path) -> io::Result<()> {
        replace_durably(&dir.join(RECORD_FILE), toml::to_string(self).map_err(io::Error::other)?)
    }

    /// Returns the next part (from 1) and the number of parts if the part is due, otherwise the time until it is. Begins a
    /// new round if the last one is over, or if `interval` has changed.
    pub fn next(&mut self, interval: u64, now: u64) -> Result<(u64, u64), Duration> {
        let parts = (interval / PART_INTERVAL_SECONDS).clamp(1, MAX_PARTS);
        // A clock that was set back must not stop the schedule.
        let begun = if self.begun > now { now.saturating_sub(interval) } else { self.begun };
        let is_over = self.done >= self.parts && now >= begun.saturating_add(interval);
        if self.interval != interval || self.parts != parts || is_over {
            let (last, last_unreplaced) = (self.last.take(), std::mem::take(&mut self.last_unreplaced));
            *self = ScrubRecord { interval, begun: now, parts, last, last_unreplaced, ..ScrubRecord::default() };
        }
        let due = self.begun.saturating_add(interval.saturating_mul(self.done) / parts);
        match due.checked_sub(now) {
            Some(left @ 1..) => Err(Duration::from_secs(left)),
            _ => Ok((self.done + 1, parts)),
        }
    }

    /// Notes that writes, moves or evictions have left extents with fewer replicas than they are to have. Counts as a finding of this round;
    /// the next one counts again.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn note_lacking(dir: &Path, lacking: Lacking) -> io::Result<()> {
        if lacking == Lacking::default() {
            return Ok(());
        }
        let mut record = ScrubRecord::read(dir);
        let known = &record.found;
        let is_known = (lacking.single == 0 || known.one_copy > 0) && (lacking.others == 0 || known.few_copies > 0);
        if is_known {
            // Nobody relies on the numbers, and each eviction would wait for a sync.
            return Ok(());
        }
        record.found.add_lacking(lacking);
        record.replace(dir)
    }

    /// Returns the listed bad replicas that were not replaced.
    pub fn unreplaced(&self) -> impl Iterator<Item = BadReplica> {
        self.unreplaced.iter().chain(&self.last_unreplaced).filter_map(|line| BadReplica::parse(line))
    }

    /// Notes that a part is done.
    pub fn add(&mut self, found: &Scrubbed, unreplaced: &[BadReplica], now: u64) {
        self.done += 1;
        let room = MAX_LISTED_REPLICAS.saturating_sub(self.unreplaced.len());
        self.unreplaced.extend(unreplaced.iter().take(room).map(BadReplica::line));
        self.found.checked += found.checked;
        self.found.bad += found.bad;
        self.found.repaired += found.repaired;
        self.found.owed += found.owed;
        self.found.lost += found.lost;
        self.found.away += found.away;
        self.found.changed += found.changed;
        self.found.one_copy += found.one_copy;
        self.found.few_copies += found.few_copies;
        self.found.miscounted += found.miscounted;
        self.found.log_damaged += found.log_damaged;
        self.found.log_copies_damaged += found.log_copies_damaged;
        self.found.log_copies_behind += found.log_copies_behind;
        if self.done >= self.parts {
            self.last = Some(LastScrub { finished: now, found: std::mem::take(&mut self.found) });
            self.last_unreplaced = std::mem::take(&mut self.unreplaced);
        }
    }

    /// Notes the findings of a scrub of the whole store that did not follow the schedule.
    pub fn note_scrubbed(dir: &Path, found: &Scrubbed, unreplaced: &[BadReplica]) {
        let mut record = ScrubRecord::read(dir);
        let found = Scrubbed { lost_of: Default::default(), changed_of: Default::default(), ..found.clone() };
        record.last = Some(LastScrub { finished: unix_seconds(), found });
        record.last_unreplaced = unreplaced.iter().map(BadReplica::line).collect();
        (record.found, record.unreplaced) = (Scrubbed::default(), Vec::new());
        record.write(dir);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DAY_SECONDS: u64 = 86_400;

    #[test]
    fn a_round_is_spread_over_its_interval_and_followed_by_the_next() {
        let mut record = ScrubRecord::default();
        let (begin, mut now) = (1_000_000, 1_000_000);
        for round in 0..3 {
            for part in 1..=48 {
                assert_eq!(record.next(2 * DAY_SECONDS, now), Ok((part, 48)), "round {round}");
                record.add(&Scrubbed { checked: 10, ..Scrubbed::default() }, &[], now);
                now += 3600;
                let waits = record.clone().next(2 * DAY_SECONDS, now - 1);
                assert_eq!(waits, Err(Duration::from_secs(1)), "round {round}, after part {part}");
            }
            let last = record.last.clone().unwrap();
            assert_eq!((last.found.checked, last.finished), (480, now - 3600));
        }
        assert_eq!(now, begin + 3 * 2 * DAY_SECONDS);
    }

    #[test]
    fn a_late_round_catches_up_and_a_clock_that_was_set_back_stops_nothing() {
        let mut record = ScrubRecord::default();
        assert_eq!(record.next(DAY_SECONDS, 10 * DAY_SECONDS), Ok((1, 24)));
        record.add(&Scrubbed::default(), &[], 10 * DAY_SECONDS);
        // The machine was off for days.
        for part in 2..=24 {
            assert_eq!(record.next(DAY_SECONDS, 15 * DAY_SECONDS), Ok((part, 24)));
            record.add(&Scrubbed::default(), &[], 15 * DAY_SECONDS);
        }
        assert_eq!(record.next(DAY_SECONDS, 15 * DAY_SECONDS), Ok((1, 24)), "the next round");
        record.done = 24;
        assert_eq!(record.next(DAY_SECONDS, 2 * DAY_SECONDS), Ok((1, 24)), "the clock was set back");
        assert_eq!(record.begun, 2 * DAY_SECONDS);
        // Another interval begins another round, and keeps the last one.
        record.last = Some(LastScrub::default());
        assert_eq!(record.next(10, 3 * DAY_SECONDS), Ok((1, 1)));
        assert!(record.last.is_some());
    }

    #[test]
    fn the_record_survives_a_restart_and_a_damaged_one_begins_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = ScrubRecord::default();
        assert!(record.next(60, 100).is_ok());
        record.add(&Scrubbed { checked: 3, bad: 2, repaired: 1, lost: 1, ..Scrubbed::default() }, &[], 100);
        record.write(dir.path());
        assert_eq!(ScrubRecord::read(dir.path()), record);
        fs::write(dir.path().join(RECORD_FILE), b"\xff parts = -1").unwrap();
        assert_eq!(ScrubRecord::read(dir.path()), ScrubRecord::default());
        fs::write(dir.path().join(RECORD_FILE), "parts = 0\ndone = 9223372036854775807\nbegun = 9223372036854775807")
            .unwrap();
        assert_eq!(ScrubRecord::read(dir.path()).next(60, 100), Ok((1, 1)));
    }
}
