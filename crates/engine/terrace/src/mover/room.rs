//! Makes room for writes, or waits for it.

use std::time::{Duration, Instant};

use terrace_plan::snapshot::TierSet;
use terrace_system::fail;

use super::{GRACE_PERIOD, Mover, OWED_PER_READ, REST_TIME};
use crate::devices::Device;
use crate::report::TierState;
use crate::write::MakeRoom;
use crate::{Error, Result};

/// How long a write waits for room before it fails.
const MAX_SPACE_WAIT: Duration = Duration::from_secs(30);
/// The time that a write waits if no room can become free.
pub(super) const HOPELESS_WAIT: Duration = Duration::from_secs(1);
/// The time for which a store counts as full after a write has waited in vain.
const FULL_STORE_TIME: Duration = Duration::from_secs(10);

/// How often a writer tries to free garbage in memory before it goes on.
const MAX_FREEING_ATTEMPTS: u32 = 3;

impl Mover {
    /// Frees all space that can be freed now, and lets full targets be tried again. Returns whether that changed nothing: then neither
    /// eviction nor freeing dead space makes room now.
    pub(super) fn free_space_now(&self) -> Result<bool> {
        let before = self.catalog.tail()?.sequence;
        self.journal.mark_synced()?;
        self.reaper.reap(Duration::ZERO)?;
        if let Some(_lock) = self.locks.mover_at_once()? {
            let tasks = self.catalog.owed(None, OWED_PER_READ)?;
            self.make(&tasks, false)?;
            self.evict()?;
        }
        for device in &self.tiers.devices {
            if device.space().is_ok_and(|s| s.used < s.capacity && !s.read_only) {
                device.try_again();
            }
        }
        Ok(self.catalog.tail()?.sequence == before)
    }
}

impl MakeRoom for Mover {
    /// Otherwise, threads that overwrite objects in memory fill it sooner than the background thread frees it, and the next objects go to
    /// other tiers. And while they go on, no mark can be made: each may be undone by a power cut that leaves it.
    fn free_much_garbage(&self) -> Result<()> {
        if !self.tiers.devices.iter().any(Device::must_free_garbage) {
            return Ok(());
        }
        // The other writers wait here, after a commit of each at most. A leaf for them; the one that holds it takes what a reap takes.
        let _alone = self.state.freeing.lock();
        // Another writer may have freed it meanwhile.
        let full: Vec<&Device> = self.tiers.devices.iter().filter(|device| device.must_free_garbage()).collect();
        for _ in 0..MAX_FREEING_ATTEMPTS {
            if !self.reaper.any_has_much_garbage(&full)? {
                break;
            }
            self.journal.mark_synced()?;
            self.reaper.reap(GRACE_PERIOD)?;
        }
        // Also if some could not be freed, because its objects wait for a tier that is away: the next attempt comes after as many bytes again.
        full.iter().for_each(|device| device.forget_appended());
        Ok(())
    }

    /// Makes room, or waits for it, for a write that no target of these tiers took.
    ///
    /// # Errors
    /// [`Error::NoSpace`] after 30 seconds, or after one second if no room can become free or another write of this process has just
    /// waited in vain. Otherwise each block of each writer would wait that long, and the threads of a mount with them.
    fn make_room(&self, bytes: usize, tiers: TierSet, waiting_since: Instant) -> Result<()> {
        let elapsed = waiting_since.elapsed();
        self.uncache_for(bytes as u64)?;
        let is_still = self.free_space_now()?;
        let limit = fail::limit("TERRACE_NO_SPACE_MILLISECONDS", MAX_SPACE_WAIT.as_millis() as u64);
        let mut limit = Duration::from_millis(limit);
        let is_full = |at: Instant| at.elapsed() < FULL_STORE_TIME;
        // The lock is held to the end of the condition, while the tiers are checked. Nothing there takes it, or a lock that
        // is held around it.
        if self.state.found_full.lock().is_some_and(is_full) || self.is_full_for_good(bytes as u64, tiers, is_still)? {
            limit = limit.min(HOPELESS_WAIT);
        }
        if elapsed > limit {
            // Two writers may set it at the same time. Either time is right.
            *self.state.found_full.lock() = Some(Instant::now());
            let tiers = self.tiers.describe(tiers);
            let any_is = |state| self.tiers.devices.iter().any(|device| device.state() == state);
            let mut also = String::new();
            if any_is(TierState::ReadOnly) {
                also += ", or make the read-only file system writable again";
            }
            if any_is(TierState::Away) {
                also += ", or bring back what is away";
            }
            return Err(Error::NoSpace {
                tiers: format!("{tiers}; free some, add a tier, or raise a tier's capacity{also}"),
            });
        }
        std::thread::sleep(REST_TIME / 10);
        Ok(())
    }
}
