//! Finds pending replicas for which waiting does not help.

use terrace_catalog::{Owed, Task};

use super::Mover;
use crate::Result;
use crate::devices::Device;
use crate::report::TierState;

impl Mover {
    /// Returns the name of a tier that has too little room for a replica which is pending on it, if neither eviction nor freeing dead space
    /// makes more. Checks only the first batch.
    pub fn find_tier_without_room(&self) -> Result<Option<String>> {
        for (task, owed) in self.owed_next(None, None)? {
            let device = self.tiers.device(task.target)?;
            if self.has_no_room(device, self.count_needed(device, &task, &owed)?)? {
                return Ok(Some(self.tiers.tier(device).name.clone()));
            }
        }
        Ok(None)
    }

    /// Returns the bytes that a pending replica needs at least. A frame may be encoded, so only a full target shows that it does not fit.
    fn count_needed(&self, device: &Device, task: &Task, owed: &Owed) -> Result<u64> {
        if self.planning.rules.now().is_plain(device.tier, &owed.key) {
            let object = self.catalog.object(&owed.key)?.filter(|object| object.id == task.object);
            return Ok(object.map_or(0, |object| object.length));
        }
        Ok(if self.tiers.read_state(device) == TierState::Full { owed.raw_len.into() } else { 0 })
    }

    fn has_no_room(&self, device: &Device, needed: u64) -> Result<bool> {
        let Ok(space) = device.space() else { return Ok(false) };
        let mark = device.capacity_below(self.tiers.tier(device).high_watermark);
        let evicts_nothing = device.tier + 1 == self.tiers.tiers.len() || space.used <= mark;
        let has_garbage = || Ok::<_, crate::Error>(!self.catalog.dead(device.id, u64::MAX, u64::MAX, 1)?.is_empty());
        Ok(device.free() < needed && evicts_nothing && !has_garbage()?)
    }
}

#[cfg(test)]
mod tests {
    use terrace_testkit::noise;

    use crate::mover::edits::{owe, task_at};
    use crate::{Config, PutOptions, Store};

    /// `health` said "working" for ever, and `health --wait` never ended.
    #[test]
    fn a_plain_file_that_never_fits_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        let tier = |name: &str, more: &str| {
            let path = dir.path().join(name);
            format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}']\n{more}\n", path.display())
        };
        let text = tier("small", "layout = 'plain'\ncapacity = '300KiB'") + &tier("disk", "");
        let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").expect("a configuration"));
        let store = store.expect("a store");
        let (mover, catalog) = (&store.engine.mover, &store.engine.catalog);
        let options = PutOptions { replicas: Some(1), ..PutOptions::default() };
        store.put_bytes(b"k", &noise(500_000, 1), &options).expect("puts");
        store.sync().expect("syncs");
        assert_eq!(mover.find_tier_without_room().expect("looks"), None);
        let (object, extents) = catalog.locate(b"k", 0, u64::MAX).expect("looks").expect("an object");
        let small = store.engine.tiers.devices[0].id;
        assert!(extents[0].replicas.iter().all(|replica| replica.target != small));
        let pending = owe(b"k", task_at(object.id, &extents[0], small), &extents[0], None);
        catalog.commit(pending.into()).expect("commits");
        assert_eq!(mover.find_tier_without_room().expect("looks").as_deref(), Some("small"));
        let health = store.health().expect("a state");
        assert_eq!(health.health, crate::report::HealthState::Warning, "{health:?}");
        assert!(
            health.findings.iter().any(|finding| finding.message.contains("tier small, which has too little room"))
        );
    }
}
