//! Waits until pending replicas are made and commits are durable.

use std::ops::Range;
use std::time::{Duration, Instant};

use terrace_catalog::Owed;
use terrace_format::key;
use terrace_plan::snapshot::{PAGE_BYTES, TierSet};
use terrace_system::fail;

use super::{MAX_WAIT, Mover, room};
use crate::devices::Device;
use crate::report::TierState;
use crate::write::Receipt;
use crate::{Error, Result};

/// The time between two looks at pending replicas.
const OWED_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Mover {
    /// Makes the pending replicas of an object, or of all, until none is pending or none was made for `limit`.
    pub fn finish(&self, object: Option<u64>, limit: Duration, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut moved = Instant::now();
        let mut is_still = false;
        loop {
            let registered = self.state.registrations.count();
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
                self.names.update_all()?;
                // If the old file of a name is no longer complete, a new file becomes pending.
                if !self.planning.rules.now().has_plain() || self.catalog.owed_count(object)? == 0 {
                    return Ok(());
                }
                continue;
            }
            let limit = limit.min(Duration::from_millis(fail::limit("TERRACE_NO_SPACE_MILLISECONDS", u64::MAX)));
            let limit = if self.is_hopeless(object, is_still)? { limit.min(room::HOPELESS_WAIT) } else { limit };
            if moved.elapsed() > limit {
                let is_full = self.is_owed_to_full(object)?;
                let read_only =
                    self.tier_owed_to(object, |device| self.tiers.read_state(device) == TierState::ReadOnly)?;
                // On a full tier, there may be thousands of such objects, and their frames are read.
                let lost = if is_full { None } else { self.find_lost_source(object)? };
                return Err(Error::StillOwed { owed, seconds: limit.as_secs(), is_full, read_only, lost });
            }
            if self.tiers.devices.iter().any(|device| device.state() == TierState::Full) {
                is_still = self.free_space_now()?;
                std::thread::sleep(OWED_POLL_INTERVAL);
            } else {
                // Another thread may be making the rest. Other processes send no signal.
                self.state.registrations.wait_for_more(registered, OWED_POLL_INTERVAL);
            }
        }
    }

    /// Makes the pending replicas of an object's shared frames. They are pending under the objects that wrote them.
    pub fn finish_shared(&self, object: u64) -> Result<()> {
        let sources = self.catalog.sources_of(object)?;
        sources.into_iter().try_for_each(|source| self.finish(Some(source), MAX_WAIT, &mut |_| {}))
    }

    /// Returns whether a replica of an object, or of any, is pending on a full target, which another thread may be trying again just now.
    pub(super) fn is_owed_to_full(&self, object: Option<u64>) -> Result<bool> {
        let is_full = |device: &Device| device.has_refused_bytes() || self.tiers.read_state(device) == TierState::Full;
        Ok(self.tier_owed_to(object, is_full)?.is_some())
    }

    /// Returns the name of a tier on which a replica of an object, or of any, is pending, if its target is one of these. Checks only the
    /// first batch.
    fn tier_owed_to(&self, object: Option<u64>, is_meant: impl Fn(&Device) -> bool) -> Result<Option<String>> {
        let tasks = self.owed_next(object, None)?;
        let mut devices = tasks.iter().filter_map(|(task, _)| self.tiers.device(task.target).ok());
        let found = devices.find(|device| is_meant(device));
        Ok(found.map(|device| self.tiers.tier(device).name.clone()))
    }

    /// Returns the key of an object that has lost the bytes of a pending replica, and notes that it has. Checks only the first batch.
    fn find_lost_source(&self, object: Option<u64>) -> Result<Option<String>> {
        for (task, Owed { key, .. }) in self.owed_next(object, None)? {
            let (extent, found) = (self.catalog.frame(&task, &key)?, self.catalog.object(&key)?);
            let (Some(extent), Some(found), None) = (extent, found, self.writer.kept.get(&task)) else { continue };
            let mut raw = vec![0; extent.raw_len as usize];
            let read = self.reader.read_from_replicas(&key, &found, &extent, 0, &mut raw);
            if let Err(error) = read.map_err(|error| self.reader.note_if_lost(&key, &found, error))
                && matches!(error, Error::Unreadable { is_lost: true, .. })
            {
                return Ok(Some(key::show(&key)));
            }
        }
        Ok(None)
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
    /// to free. Eviction makes no room if the store `is_still`: a moment ago, an attempt to free space committed nothing.
    fn is_hopeless(&self, object: Option<u64>, is_still: bool) -> Result<bool> {
        let mut after = None;
        loop {
            let tasks = self.owed_next(object, after)?;
            let Some((last, _)) = tasks.last() else { return Ok(true) };
            after = Some(*last);
            for (task, owed) in &tasks {
                let device = self.tiers.device(task.target)?;
                // A frame is encoded, so that it may be shorter than its bytes. Only a failed write shows that it does not fit.
                let needed = if device.state() == TierState::Full { owed.raw_len.into() } else { 0 };
                if !self.can_never_take(device, owed.raw_len.into(), needed, is_still)? {
                    return Ok(false);
                }
            }
        }
    }

    /// Returns whether neither eviction nor freeing dead space makes room for bytes for which the planner has found none. Eviction makes none
    /// if the store `is_still`: a moment ago, an attempt to free space committed nothing.
    pub(super) fn is_full_for_good(&self, bytes: u64, tiers: TierSet, is_still: bool) -> Result<bool> {
        // The planner fills whole pages, and may divide the bytes among targets.
        let needed = bytes.next_multiple_of(PAGE_BYTES);
        for device in self.tiers.devices.iter().filter(|device| tiers.has(device.tier as u8)) {
            if !self.can_never_take(device, PAGE_BYTES, needed, is_still)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a target never has a capacity of `least` bytes, or has less room than `needed` and neither eviction nor freeing dead
    /// space can change that. Eviction can if something leaves its tier, which is not `is_still`, for a lower one. A service does not tell
    /// how much room it has, nor does a directory with a quota: it has none if it has refused the last bytes and all `is_still` since.
    fn can_never_take(&self, device: &Device, least: u64, needed: u64, is_still: bool) -> Result<bool> {
        match device.state() {
            TierState::ReadOnly => return Ok(true),
            TierState::Away => return Ok(false),
            TierState::Ok | TierState::Full => {}
        }
        let Ok(space) = device.space() else { return Ok(false) };
        // Other programs use the rest of its file system, or the configuration allows no more.
        let is_too_small = space.capacity < least + Device::FRAMING_BYTES;
        let evicts_nothing = is_still || device.tier + 1 == self.tiers.tiers.len();
        let has_no_room = device.free() < needed || is_still && device.has_refused_bytes();
        Ok(is_too_small
            || evicts_nothing && has_no_room && self.catalog.dead(device.id, u64::MAX, u64::MAX, 1)?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use terrace_plan::snapshot::TierSet;

    use crate::{Config, PutOptions, Store};

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
            assert_eq!(store.engine.mover.is_full_for_good(1, TierSet::ALL, false).expect("looks"), is_too_small);
        }
    }

    /// The last tier had some room, but not enough: the planner found no place, no write failed, and the tier did not count as full.
    #[test]
    fn a_write_does_not_wait_for_a_last_tier_that_has_too_little_room() {
        let dir = tempfile::tempdir().expect("a folder");
        let target = dir.path().join("t");
        let target = target.display();
        let text = format!("[[tier]]\nname = 't'\nkind = 'directory'\ntargets = ['{target}']\ncapacity = '1MiB'\n");
        let config = Config::parse(&text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let options = PutOptions { replicas: Some(1), ..PutOptions::default() };
        let is_full = |bytes| store.engine.mover.is_full_for_good(bytes, TierSet::ALL, false).expect("looks");
        store.put_bytes(b"k", &terrace_testkit::noise(600_000, 1), &options).expect("puts");
        store.sync().expect("syncs");
        assert!(is_full(1 << 20) && !is_full(100_000));
        store.put_bytes(b"l", &terrace_testkit::noise(425_000, 2), &options).expect("puts");
        store.sync().expect("syncs");
        assert!(is_full(100_000) && is_full(20_000));
        store.remove(b"k").expect("removes");
        assert!(!is_full(20_000), "its space can be freed");
        store.engine.mover.free_space_now().expect("frees");
        assert!(is_full(1 << 20) && !is_full(100_000));
    }

    /// A quota refused the bytes, and the file system showed much room. The target was tried again each time, and counted as one with room:
    /// the first write of each process waited for 30 seconds.
    #[test]
    fn a_write_does_not_wait_for_a_last_tier_that_refuses_bytes() {
        let dir = tempfile::tempdir().expect("a folder");
        let target = dir.path().join("t");
        let text = format!("[[tier]]\nname = 't'\nkind = 'directory'\ntargets = ['{}']\n", target.display());
        let config = Config::parse(&text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let put = |key| store.put_bytes(key, &terrace_testkit::noise(200_000, 1), &PutOptions::default()).map(drop);
        put(b"k").expect("puts");
        store.sync().expect("syncs");
        let is_full = |is_still| store.engine.mover.is_full_for_good(500_000, TierSet::ALL, is_still).expect("looks");
        let refuses = || store.engine.tiers.devices[0].failed(&std::io::ErrorKind::QuotaExceeded.into());
        refuses();
        store.engine.mover.free_space_now().expect("finds nothing to free");
        assert!(is_full(true) && !is_full(false));
        put(b"l").expect("there is room again");
        assert!(!is_full(true));
        refuses();
        store.remove(b"k").expect("removes");
        assert!(!is_full(true), "its space can be freed");
    }

    /// A tier was called slow or away, and the object whose bytes were gone had no name, in `sync` and in `health`.
    #[test]
    fn a_pending_replica_of_lost_bytes_is_no_slow_tier() {
        let dir = tempfile::tempdir().expect("a folder");
        let place = |name: &str| dir.path().join(name);
        let tier = |name: &str| {
            let place = place(name);
            format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}']\n", place.display())
        };
        let config = Config::parse(&(tier("near") + &tier("far")), "test").expect("a configuration");
        let store = Store::init(&place("store"), &config).expect("a store");
        drop(store);
        std::fs::rename(place("far"), place("unmounted")).expect("renames");
        let store = Store::open(&place("store")).expect("opens");
        let options = PutOptions { replicas: Some(2), ack: Some(crate::Ack::Placed), ..PutOptions::default() };
        store.put_bytes(b"k", &terrace_testkit::noise(200_000, 1), &options).expect("puts");
        for segment in std::fs::read_dir(place("near").join("segments")).expect("segments") {
            let file = std::fs::File::options().write(true).open(segment.expect("an entry").path()).expect("opens");
            std::os::unix::fs::FileExt::write_all_at(&file, &[7; 150_000], 20_000).expect("damages");
        }
        for task in store.catalog().owed(None, 2).expect("reads") {
            store.engine.writer.kept.forget(&task.0);
        }
        let waited = store.engine.mover.finish(None, std::time::Duration::ZERO, &mut |_| {});
        let waited = waited.expect_err("the bytes are lost");
        assert!(matches!(&waited, crate::Error::StillOwed { owed: 1, lost: Some(key), .. } if key == "k"), "{waited}");
        let health = store.health().expect("a report");
        assert!(health.findings.iter().any(|found| found.code == crate::report::FindingCode::Lost));
        // It would be waited for.
        store.remove(b"k").expect("removes");
    }

    /// Both tiers were full. Only the last one counted as full for good, so the first write of each process waited for 30 seconds.
    #[test]
    fn a_write_does_not_wait_for_an_upper_tier_that_evicts_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let tier = |name: &str| {
            let target = dir.path().join(name);
            format!(
                "[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}']\ncapacity = '1MiB'\n",
                target.display()
            )
        };
        let config = Config::parse(&(tier("upper") + &tier("lower")), "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let options = PutOptions { replicas: Some(1), ..PutOptions::default() };
        for key in [b"k", b"l"] {
            store.put_bytes(key, &terrace_testkit::noise(850_000, u64::from(key[0])), &options).expect("puts");
        }
        store.sync().expect("syncs");
        // The background thread may have moved one between the puts.
        terrace_testkit::wait_until("nothing is evicted or freed any more", || {
            store.engine.mover.free_space_now().expect("evicts what can be evicted")
        });
        let is_full = |is_still| store.engine.mover.is_full_for_good(500_000, TierSet::ALL, is_still).expect("looks");
        assert!(is_full(true) && !is_full(false));
    }
}
