//! The record of scrubs: a file in the store's directory with the progress of this round and the findings of the last one. If the file is
//! lost, a new round begins.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace_catalog::TargetId;
use terrace_system::clock::unix_seconds;
use terrace_system::{Locked, replace_durably};

use super::bad_replica::{BadReplica, MAX_LISTED_REPLICAS};
use crate::report::{Lacking, LastScrub, Scrubbed};

/// The file's name in the store's directory.
const RECORD_FILE: &str = "scrubbed";
/// The lock of those who change it.
pub const SCRUB_RECORD_LOCK: &str = "scrubbed.lock";
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

    /// Changes the record of the store in `dir`.
    pub fn change<R>(dir: &Path, change: impl FnOnce(&mut ScrubRecord) -> R) -> R {
        // Held until the record is replaced: of two changes at the same time, one would be lost.
        let lock = lock(dir);
        let mut record = ScrubRecord::read(dir);
        let result = change(&mut record);
        // Without the file, the replicas are verified again sooner than necessary.
        if let Err(error) = lock.and_then(|_lock| record.replace(dir)) {
            tracing::debug!(%error, "the record of scrubs could not be written");
        }
        result
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
        // As in `change`.
        let _lock = lock(dir)?;
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

    /// Notes that a part is done. Bad replicas of the last round stay listed if their targets are away.
    pub fn add(&mut self, found: &Scrubbed, unreplaced: &[BadReplica], now: u64, is_away: impl Fn(TargetId) -> bool) {
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
            let (mut found, mut listed) = (std::mem::take(&mut self.found), std::mem::take(&mut self.unreplaced));
            found.bad += list_again(&mut listed, &self.last_unreplaced, |line| is_on(line, &is_away));
            if found.away > 0 {
                found.bad += self.unlisted();
            }
            self.last = Some(LastScrub { finished: now, found });
            self.last_unreplaced = listed;
        }
    }

    /// Notes the findings of a scrub of the whole store that did not follow the schedule, and that began when the record was as `before`. Bad
    /// replicas stay listed that it could not read, because their targets are away, or that others have found since it began.
    pub fn note_scrubbed(
        dir: &Path,
        before: &ScrubRecord,
        found: &Scrubbed,
        unreplaced: &[BadReplica],
        is_away: impl Fn(TargetId) -> bool,
    ) {
        ScrubRecord::change(dir, |record| {
            let mut found = Scrubbed { lost_of: Default::default(), changed_of: Default::default(), ..found.clone() };
            let mut listed = unreplaced.iter().map(BadReplica::line).collect();
            for known in [&record.last_unreplaced, &record.unreplaced] {
                let is_new =
                    |line: &String| !before.last_unreplaced.contains(line) && !before.unreplaced.contains(line);
                found.bad += list_again(&mut listed, known, |line| is_new(line) || is_on(line, &is_away));
            }
            if found.away > 0 {
                // Nobody knows where those are that were counted and not listed.
                found.bad += record.unlisted();
            }
            record.last = Some(LastScrub { finished: unix_seconds(), found });
            record.last_unreplaced = listed;
            (record.found, record.unreplaced) = (Scrubbed::default(), Vec::new());
        });
    }

    /// Returns the number of bad replicas of the last whole round that were counted and not listed, because there are too many.
    fn unlisted(&self) -> u64 {
        let counted = self.last.as_ref().map_or(0, |last| last.found.bad.saturating_sub(last.found.repaired));
        counted.saturating_sub(self.last_unreplaced.len() as u64)
    }

    /// Notes the bad replicas that a scrub of a part of the store has found, as findings of this round.
    pub fn note_bad(dir: &Path, unreplaced: &[BadReplica]) {
        if unreplaced.is_empty() {
            return;
        }
        ScrubRecord::change(dir, |record| {
            let mut listed = std::mem::take(&mut record.unreplaced);
            let lines: Vec<String> = unreplaced.iter().map(BadReplica::line).collect();
            record.found.bad += list_again(&mut listed, &lines, |line| !record.last_unreplaced.contains(line));
            record.unreplaced = listed;
        });
    }
}

fn lock(dir: &Path) -> io::Result<Locked> {
    Locked::wait(File::options().create(true).truncate(false).write(true).open(dir.join(SCRUB_RECORD_LOCK))?)
}

/// Returns whether the replica of a line is on such a target.
fn is_on(line: &str, is_meant: &impl Fn(TargetId) -> bool) -> bool {
    BadReplica::parse(line).is_some_and(|bad| is_meant(bad.task.target))
}

/// Adds the lines of `known` that are meant and not listed. Returns how many there are; of many, some are listed.
fn list_again(listed: &mut Vec<String>, known: &[String], is_meant: impl Fn(&String) -> bool) -> u64 {
    let new: Vec<&String> = known.iter().filter(|line| is_meant(line) && !listed.contains(line)).collect();
    let room = MAX_LISTED_REPLICAS.saturating_sub(listed.len());
    listed.extend(new.iter().take(room).copied().cloned());
    new.len() as u64
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
                record.add(&Scrubbed { checked: 10, ..Scrubbed::default() }, &[], now, |_| false);
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
        record.add(&Scrubbed::default(), &[], 10 * DAY_SECONDS, |_| false);
        // The machine was off for days.
        for part in 2..=24 {
            assert_eq!(record.next(DAY_SECONDS, 15 * DAY_SECONDS), Ok((part, 24)));
            record.add(&Scrubbed::default(), &[], 15 * DAY_SECONDS, |_| false);
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

    /// A round that could not read a bad replica forgot it.
    #[test]
    fn bad_replicas_on_targets_that_are_away_stay_listed() {
        let dir = tempfile::tempdir().unwrap();
        let task = |target| terrace_catalog::Task { object: 1, frame_offset: 0, write: 2, target };
        let bad = |target| BadReplica {
            key: b"a".to_vec(),
            task: task(target),
            place: terrace_tier::Place { segment: 1, offset: 0, length: 0 },
        };
        let two = Scrubbed { bad: 2, ..Scrubbed::default() };
        let nothing = ScrubRecord::default();
        ScrubRecord::note_scrubbed(dir.path(), &nothing, &two, &[bad(1), bad(2)], |_| false);
        let (before, found) = (ScrubRecord::read(dir.path()), Scrubbed { away: 1, ..Scrubbed::default() });
        ScrubRecord::note_scrubbed(dir.path(), &before, &found, &[], |target| target == 2);
        let mut record = ScrubRecord::read(dir.path());
        assert_eq!(record.unreplaced().collect::<Vec<_>>(), [bad(2)]);
        assert_eq!(record.last.as_ref().unwrap().found.bad, 1);
        // A scrub of a part adds what is new, and a round of the schedule replaces all that it could read.
        ScrubRecord::note_bad(dir.path(), &[bad(2), bad(3)]);
        let began = ScrubRecord::read(dir.path());
        assert_eq!((began.unreplaced().count(), began.found.bad), (2, 1));
        // What others find while all is scrubbed stays.
        ScrubRecord::note_bad(dir.path(), &[bad(4)]);
        ScrubRecord::note_scrubbed(dir.path(), &began, &Scrubbed::default(), &[bad(2)], |_| false);
        record = ScrubRecord::read(dir.path());
        assert_eq!(record.unreplaced().collect::<Vec<_>>(), [bad(2), bad(4)]);
        assert!(record.next(60, 100).is_ok());
        record.add(&Scrubbed::default(), &[], 100, |target| target == 2);
        assert_eq!(record.unreplaced().collect::<Vec<_>>(), [bad(2)]);
    }

    #[test]
    fn the_record_survives_a_restart_and_a_damaged_one_begins_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = ScrubRecord::default();
        assert!(record.next(60, 100).is_ok());
        record.add(&Scrubbed { checked: 3, bad: 2, repaired: 1, lost: 1, ..Scrubbed::default() }, &[], 100, |_| false);
        ScrubRecord::change(dir.path(), |there| *there = record.clone());
        assert_eq!(ScrubRecord::read(dir.path()), record);
        fs::write(dir.path().join(RECORD_FILE), b"\xff parts = -1").unwrap();
        assert_eq!(ScrubRecord::read(dir.path()), ScrubRecord::default());
        fs::write(dir.path().join(RECORD_FILE), "parts = 0\ndone = 9223372036854775807\nbegun = 9223372036854775807")
            .unwrap();
        assert_eq!(ScrubRecord::read(dir.path()).next(60, 100), Ok((1, 1)));
    }
}
