//! Scrub and repair: reads every replica, and replaces bad or missing ones.

mod frame;
mod names;
mod records;

use std::collections::HashMap;

use terrace_catalog::{Extent, Object, TargetId, Task, frames};
use terrace_format::key::show;

use super::Care;
use crate::home::{BadReplica, MAX_LISTED_REPLICAS};
use crate::mover::silent_targets;
use crate::report::Scrubbed;
use crate::{Error, Result};

/// The objects to scrub: part `part` of `of`, chosen by key.
#[derive(Clone, Copy, Debug)]
struct Subset {
    part: u64,
    of: u64,
}

/// The result of a scrub.
pub(crate) struct ScrubOutcome {
    pub found: Scrubbed,
    /// The bad replicas that were not replaced; of many, some.
    pub unreplaced: Vec<BadReplica>,
    /// Whether the scrub reached its end.
    pub is_whole: bool,
}

/// The result of scrubbing a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FrameState {
    Good,
    Lost,
    /// Its replicas are on targets that are away or in adopted files that their owners have changed, or its object has changed meanwhile.
    Unknown,
}

/// A scrub that is in progress.
struct Scrub<'a> {
    care: &'a Care,
    /// Whether to replace bad and missing replicas.
    repair: bool,
    found: Scrubbed,
    unreplaced: Vec<BadReplica>,
    /// The shared frames that were read.
    shared: HashMap<Task, FrameState>,
    /// The objects that have lost bytes, with their numbers and generations.
    lost: Vec<(Vec<u8>, (u64, u64))>,
}

/// An object that is scrubbed, as it was when the scrub reached it.
#[derive(Clone, Copy)]
struct Subject<'a> {
    key: &'a [u8],
    object: &'a Object,
}

impl Care {
    /// Returns the targets from which nothing can be read now.
    pub fn silent_targets(&self) -> Vec<TargetId> {
        silent_targets(&self.tiers)
    }

    /// Reads and verifies every replica of every object at or below `prefix`; with `repair`, replaces bad and missing
    /// ones. `subset` is `(n, t)`: only the n-th (from 1) of t parts, by key. `progress` is called after each extent with the
    /// replicas checked so far, and ends the scrub by returning false.
    pub fn scrub(
        &self,
        prefix: &[u8],
        repair: bool,
        subset: Option<(u64, u64)>,
        progress: &mut dyn FnMut(&Scrubbed) -> bool,
    ) -> Result<ScrubOutcome> {
        self.check_targets()?;
        let subset = subset.map(|(part, of)| Subset { part, of: of.max(1) });
        let (found, unreplaced, shared, lost) = Default::default();
        let mut scrub = Scrub { care: self, repair, found, unreplaced, shared, lost };
        let mut go_on = true;
        self.catalog.each_object(prefix, |key, object, extents| {
            if subset.is_none_or(|s| xxhash_rust::xxh3::xxh3_64(key) % s.of + 1 == s.part) {
                go_on = scrub.scrub_object(Subject { key, object }, extents, progress)?;
            }
            Ok::<_, Error>(go_on)
        })?;
        let Scrub { mut found, unreplaced, lost, .. } = scrub;
        if go_on && prefix.is_empty() && subset.is_none() && found.away == 0 {
            self.reader.lost.replace(&lost);
        } else if !lost.is_empty() {
            self.reader.lost.sync();
        }
        // Of all parts of the store, with the first one.
        if go_on && prefix.is_empty() && subset.is_none_or(|subset| subset.part == 1) {
            found.miscounted = self.check_owners()?;
            let log = self.check_log(repair)?;
            (found.log_damaged, found.log_copies_damaged) = (log.files, log.copy_files);
            found.log_copies_behind = log.copies_behind;
        }
        Ok(ScrubOutcome { found, unreplaced, is_whole: go_on })
    }
}

impl Scrub<'_> {
    /// Scrubs an object. Returns false if `progress` did.
    fn scrub_object(
        &mut self,
        subject: Subject,
        extents: &[Extent],
        progress: &mut dyn FnMut(&Scrubbed) -> bool,
    ) -> Result<bool> {
        let Subject { key, object } = subject;
        let (mut is_lost, mut is_good) = (false, true);
        let unrepaired = |found: &Scrubbed| found.bad - found.repaired;
        let bad_before = unrepaired(&self.found);
        for extent in frames(extents) {
            let name = extent.task(object.id, 0);
            // It may have been read for another owner.
            let state = match self.shared.get(&name).copied() {
                None => {
                    let state = self.scrub_frame(subject, extent)?;
                    if extent.source.is_some() {
                        self.shared.insert(name, state);
                    }
                    state
                }
                // To all of them.
                Some(FrameState::Lost) => {
                    self.count_lost(key);
                    FrameState::Lost
                }
                // This owner may want more replicas than those before.
                Some(state) => {
                    self.count_lacking(subject, extent)?;
                    state
                }
            };
            is_lost |= state == FrameState::Lost;
            is_good &= state == FrameState::Good;
            if !progress(&self.found) {
                return Ok(false);
            }
        }
        // A file that is gone is bad once, not also for its name.
        if self.care.planning.rules.now().has_plain() && unrepaired(&self.found) == bad_before {
            self.scrub_names(subject, extents)?;
        }
        self.unreplaced.truncate(MAX_LISTED_REPLICAS);
        if is_lost {
            self.care.reader.lost.note(key, object);
            self.lost.push((key.to_vec(), (object.id, object.generation)));
        } else if is_good {
            self.care.reader.has_read_all(key, object);
        }
        Ok(true)
    }

    fn count_lost(&mut self, key: &[u8]) {
        self.found.lost += 1;
        *self.found.lost_of.entry(show(key)).or_default() += 1;
    }
}
