//! Waits until pending replicas are made and commits are durable.

use std::ops::Range;
use std::time::{Duration, Instant};

use terrace_system::fail;

use super::{MAX_WAIT, Mover, room};
use crate::devices::Device;
use crate::report::TierState;
use crate::write::Receipt;
use crate::{Error, Result};

/// If a target has this much room, a write is cut to fit.
const MIN_BLOCK_BYTES: u64 = 64 << 10;

impl Mover {
    /// Makes the pending replicas of an object, or of all, until none is pending or none was made for `limit`.
    pub fn finish(&self, object: Option<u64>, limit: Duration, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut moved = Instant::now();
        loop {
            let made = match object {
                Some(_) => self.make_all(object, true)?,
                None => self.make_all_telling(progress)?,
            };
            if made > 0 {
                moved = Instant::now();
            }
            let owed = self.catalog.owed_count(object)?;
            progress(owed);
            if owed == 0 {
                // Another thread may have registered a plain file and not have named it yet.
                self.follow_all()?;
                // If the old file of a name is no longer complete, a new file becomes pending.
                if !self.planning.rules.now().has_plain() || self.catalog.owed_count(object)? == 0 {
                    return Ok(());
                }
                continue;
            }
            let limit = limit.min(Duration::from_millis(fail::limit("TERRACE_NO_SPACE_MILLISECONDS", u64::MAX)));
            let limit = if self.is_hopeless(object)? { limit.min(room::HOPELESS_WAIT) } else { limit };
            if moved.elapsed() > limit {
                let is_full = self.tier_owed_to(object, TierState::Full)?.is_some();
                let read_only = self.tier_owed_to(object, TierState::ReadOnly)?;
                return Err(Error::StillOwed { owed, seconds: limit.as_secs(), is_full, read_only });
            }
            if self.tiers.devices.iter().any(|device| device.state() == TierState::Full) {
                self.free_space_now()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes the pending replicas of an object's shared frames. They are pending under the objects that wrote them.
    pub fn finish_shared(&self, object: u64) -> Result<()> {
        let sources = self.catalog.sources_of(object)?;
        sources.into_iter().try_for_each(|source| self.finish(Some(source), MAX_WAIT, &mut |_| {}))
    }

    /// Returns the name of a tier on which a replica of an object, or of any, is pending, if its target is in this state. Checks only
    /// the first batch.
    fn tier_owed_to(&self, object: Option<u64>, state: TierState) -> Result<Option<String>> {
        let tasks = self.owed_next(object, None)?;
        let mut devices = tasks.iter().filter_map(|(task, _)| self.tiers.device(task.target).ok());
        let found = devices.find(|device| self.tiers.look(device) == state);
        Ok(found.map(|device| self.tiers.tier(device).name.clone()))
    }

    /// Returns the least number of replicas of any extent in a receipt's range. None if the object no longer exists, or has
    /// no bytes in the range.
    pub fn count_replicas(&self, receipt: &Receipt) -> Result<Option<u8>> {
        let Range { start, end } = receipt.range;
        let found = self.catalog.locate(&receipt.key, start, end)?.filter(|(object, _)| object.id == receipt.object);
        let counts = found.into_iter().flat_map(|(_, extents)| extents).map(|extent| extent.replicas.len());
        Ok(counts.min().map(|least| least.min(u8::MAX.into()) as u8))
    }

    /// Returns whether all pending replicas of an object, or of all, are for targets that take no bytes and have no garbage
    /// to free.
    fn is_hopeless(&self, object: Option<u64>) -> Result<bool> {
        let mut after = None;
        loop {
            let tasks = self.owed_next(object, after)?;
            let Some((last, _)) = tasks.last() else { return Ok(true) };
            after = Some(*last);
            for (task, owed) in &tasks {
                if !self.can_never_take(self.tiers.device(task.target)?, owed.raw_len.into())? {
                    return Ok(false);
                }
            }
        }
    }

    /// Returns whether no target takes another block, and neither eviction nor freeing dead space can change that.
    pub(super) fn is_full_for_good(&self) -> Result<bool> {
        for device in &self.tiers.devices {
            if !self.can_never_take(device, MIN_BLOCK_BYTES)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a target takes no more bytes, and neither eviction nor freeing dead space can change that.
    fn can_never_take(&self, device: &Device, bytes: u64) -> Result<bool> {
        match device.state() {
            TierState::ReadOnly => return Ok(true),
            TierState::Away => return Ok(false),
            TierState::Ok | TierState::Full => {}
        }
        let Ok(space) = device.space() else { return Ok(false) };
        // Other programs use the rest of its file system, or the configuration allows no more.
        let is_too_small = space.capacity < bytes + Device::FRAMING_BYTES;
        let is_last = device.state() == TierState::Full && device.tier + 1 == self.tiers.tiers.len();
        let has_no_room = space.capacity.saturating_sub(space.used) < bytes;
        Ok(is_too_small || is_last && has_no_room && self.catalog.dead(device.id, u64::MAX, u64::MAX, 1)?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Store};

    #[test]
    fn a_write_does_not_wait_for_a_tier_that_is_too_small_for_any_frame() {
        for (capacity, is_too_small) in [("8KiB", true), ("1MiB", false)] {
            let dir = tempfile::tempdir().expect("a folder");
            let target = dir.path().join("t");
            let target = target.display();
            let text =
                format!("[[tier]]\nname = 't'\nkind = 'directory'\ntargets = ['{target}']\ncapacity = '{capacity}'\n");
            let config = Config::parse(&text, "test").expect("a configuration");
            let store = Store::init(&dir.path().join("store"), &config).expect("a store");
            assert_eq!(store.engine.mover.is_full_for_good().expect("looks"), is_too_small);
        }
    }
}
