//! Moving what somebody asks for, and the upkeep that is otherwise done in the background.

use std::time::Duration;

use super::Store;
use crate::Result;
use crate::report::{Moved, Scrubbed};

impl Store {
    /// Puts a replica of everything at or below `prefix` on a tier, beside those that it has.
    pub fn stage(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        self.engine.mover.stage(prefix, tier)
    }

    /// Takes the replicas of everything at or below `prefix` off a tier. A replica that is the only one on persistent
    /// tiers, or without which there would be fewer than are wanted, is moved to another tier first. Where no other failure domain has room,
    /// only the last one on persistent tiers stays.
    pub fn evict(&self, prefix: &[u8], tier: &str) -> Result<Moved> {
        self.engine.mover.evict_prefix(prefix, tier)
    }

    /// Moves everything off a tier, so that it can be removed. Each replica keeps its number of companions as far as
    /// there are failure domains.
    pub fn drain(&self, tier: &str) -> Result<Moved> {
        self.engine.mover.drain(tier)
    }

    /// Plans everything at or below `prefix` that is hardly read again, so that its bytes are as few as can be: replicas
    /// stay on their targets, and are encoded more densely where that pays by a twentieth. With `all`, also what is hot.
    pub fn tune(&self, prefix: &[u8], all: bool) -> Result<Moved> {
        self.engine.mover.tune(prefix, all)
    }

    /// Plans again, now, what this process has renamed to where other rules hold; otherwise the background or the next
    /// [`Store::sync`] does. The replicas that this asks for are owed then.
    pub fn replan_renamed(&self) -> Result<()> {
        self.engine.mover.follow_policies().map(drop)
    }

    /// Owes copies on faster tiers of what was read so often that they pay, as the background does every few seconds;
    /// how many.
    pub fn promote(&self) -> Result<usize> {
        self.engine.mover.promote()
    }

    /// Merges the many small extents that range writes left of objects, and copies what lives out of segments that are
    /// mostly dead. The background thread does it now and then; here it is done at once.
    pub fn compact(&self) -> Result<()> {
        self.engine.mover.compact()
    }

    /// Reads and verifies every replica of every object at or below `prefix`; with `repair`, replaces bad and missing
    /// ones. `subset` is `(n, t)`: only the n-th (from 1) of t parts, by key. `progress` is called with the replicas
    /// checked so far.
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
        let (found, _) = self.engine.care.scrub(prefix, repair, subset, &mut go_on)?;
        if prefix.is_empty() && subset.is_none() {
            self.engine.care.note_scrubbed(&found);
        }
        Ok(found)
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

    /// Tells other processes that this one changes no names, attributes and contents of objects from now on, but only places
    /// of replicas. Doors of other processes then keep what they told their clients as if they were alone with the store. A
    /// process that calls this has one copy of this library.
    pub fn stay_in_background(&self) {
        if let Err(error) = self.engine.sole.hide() {
            tracing::debug!(%error, "other processes are not told that this one changes nothing that they see");
        }
    }

    /// Looks whether all targets are what they were. What emptied ones have lost is pending again afterwards.
    pub fn look_at_targets(&self) -> Result<()> {
        self.engine.care.look_at_targets().map(drop)
    }

    /// Starts the background thread of this process, which otherwise starts with its first write. It makes pending replicas,
    /// evicts, promotes, compacts, frees space, and makes commits durable.
    pub fn work_in_background(&self) {
        self.engine.mover.start(true);
    }

    /// Repairs what reads of this process found bad. Returns how many replicas were replaced since the last call.
    pub fn repair_suspects(&self) -> Result<u64> {
        self.engine.mover.repair_suspects()?;
        Ok(self.engine.mover.take_repaired())
    }
}
