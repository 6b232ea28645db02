//! Moves that a user asks for, and maintenance that the background thread does otherwise.

use std::time::Duration;

use super::Store;
use crate::Result;
use crate::home::ScrubRecord;
use crate::report::{Moved, Replaced, Scrubbed};

impl Store {
    /// Adds a replica on a tier for everything at or below `prefix`.
    pub fn stage(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        self.engine.mover.stage(prefix, tier)
    }

    /// Removes the replicas of everything at or below `prefix` from a tier. A replica that is the only persistent one, or
    /// that the object needs to have as many replicas as it wants, is moved to another tier first. If no other failure
    /// domain has room, only the last persistent replica stays. None leaves before another replica of the same bytes was read, and bad ones were
    /// replaced.
    pub fn evict(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        // What other targets lack cannot leave this tier.
        self.engine.care.check_targets()?;
        self.engine.mover.evict_prefix(prefix, tier)
    }

    /// Moves everything off a tier, so that the tier can be removed. Extents keep their number of replicas as far as there
    /// are failure domains. Of each extent it reads another replica first, and replaces bad ones.
    pub fn drain(&self, tier: &str) -> Result<Moved> {
        self.engine.care.check_targets()?; // as above
        self.engine.mover.drain(tier)
    }

    /// Plans everything at or below `prefix` that is rarely read again, so that it takes as few bytes as possible. Replicas
    /// stay on their targets, and are encoded more densely if that saves at least a twentieth. With `all`, this includes
    /// objects that are often read.
    pub fn tune(&self, prefix: &[u8], all: bool) -> Result<Moved> {
        self.engine.mover.tune(prefix, all)
    }

    /// Replans now what this process has renamed to keys with other rules. Otherwise the background thread or the next
    /// [`Store::sync`] does it. The new replicas become pending.
    pub fn replan_renamed(&self) -> Result<()> {
        self.engine.mover.follow_policies().map(drop)
    }

    /// Makes replicas pending on faster tiers for bytes that are read often enough to pay for them. Returns their number.
    /// The background thread does it every few seconds.
    pub fn promote(&self) -> Result<usize> {
        self.engine.mover.promote()
    }

    /// Merges the many small extents that range writes left in objects, and copies live frames out of segments that are
    /// mostly garbage. The background thread does it from time to time; here it is done at once.
    pub fn compact(&self) -> Result<()> {
        self.engine.mover.compact()
    }

    /// Reads and verifies every replica of every object at or below `prefix`; with `repair`, replaces bad and missing
    /// ones, and makes those that are owed to targets that are away on others. `subset` is `(n, t)`: only the n-th (from 1)
    /// of t parts is verified, by key. `progress` is called with the replicas checked so far.
    pub fn scrub(
        &self,
        prefix: &[u8],
        repair: bool,
        subset: Option<(u64, u64)>,
        mut progress: impl FnMut(&Scrubbed),
    ) -> Result<Scrubbed> {
        let mut go_on = |found: &Scrubbed| {
            progress(found);
            true
        };
        let redirected = if repair { self.engine.mover.redirect_owed(prefix)?.made } else { 0 };
        let before = ScrubRecord::read(&self.engine.dir);
        let mut scrubbed = self.engine.care.scrub(prefix, repair, subset, &mut go_on)?;
        scrubbed.found.redirected = redirected;
        let (dir, care) = (&self.engine.dir, &self.engine.care);
        match prefix.is_empty() && subset.is_none() {
            true => {
                let silent = care.silent_targets();
                let is_away = |target| silent.contains(&target);
                ScrubRecord::note_scrubbed(dir, &before, &scrubbed.found, &scrubbed.unreplaced, is_away);
            }
            false => ScrubRecord::note_bad(dir, &scrubbed.unreplaced),
        }
        Ok(scrubbed.found)
    }

    /// Scrubs and repairs the next part of the store if it is due, so that each replica is verified once in each `interval`.
    /// The state of the schedule is kept in the store's directory. `go_on` is called after each extent; if it returns false, the
    /// scrub ends, and the part stays due. Returns how long it is until the next part is due.
    pub fn scrub_next_part(
        &self,
        interval: Duration,
        mut go_on: impl FnMut(&Scrubbed) -> bool,
    ) -> Result<(Option<Scrubbed>, Duration)> {
        self.engine.care.scrub_next_part(interval, &mut go_on)
    }

    /// Tells other processes that this one will not change names, attributes or contents of objects from now on, but only
    /// the places of replicas. Doors of other processes then trust their caches as if they were alone with the store. A
    /// process that calls this must have only one copy of this library.
    pub fn stay_in_background(&self) {
        if let Err(error) = self.engine.sole.hide() {
            tracing::debug!(%error, "other processes are not told that this one changes nothing that they see");
        }
    }

    /// Checks whether any target was emptied or replaced. Replicas on emptied targets become pending.
    pub fn check_targets(&self) -> Result<()> {
        self.engine.care.check_targets().map(drop)
    }

    /// Starts the background thread of this process, which otherwise starts with its first write. It makes pending replicas,
    /// evicts, promotes, compacts, frees space, and makes commits durable.
    pub fn work_in_background(&self) {
        self.engine.mover.start(true);
    }

    /// Repairs replicas that reads of this process found bad. Returns how many replicas were replaced since the last call.
    pub fn repair_suspects(&self) -> Result<Replaced> {
        self.engine.mover.repair_suspects()?;
        Ok(self.engine.mover.take_repaired())
    }
}
