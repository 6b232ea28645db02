//! How much a store's targets can hold.

use std::collections::HashMap;

use super::Store;
use crate::config::TierKind;
use crate::report::{Room, TierState};

impl Store {
    /// What all targets that can be reached can hold together. A target without a limit holds what its file system does, and
    /// those that share one share what is free of it.
    pub fn room(&self) -> Room {
        let (mut used, mut free) = (0u64, 0u64);
        // By file system: what its targets would take, and what there is.
        let mut shared: HashMap<u64, (u64, u64)> = HashMap::new();
        let inner = &self.inner;
        for device in inner.tiers.devices.iter().filter(|device| device.state() != TierState::Away) {
            let Ok(space) = device.space() else { continue };
            used = used.saturating_add(space.used);
            let room = space.capacity.saturating_sub(space.used);
            let directory = inner.config.tiers.get(device.tier).is_some_and(|tier| tier.kind == TierKind::Directory);
            match rustix::fs::stat(&device.path).and_then(|stat| Ok((stat, rustix::fs::statvfs(&device.path)?))) {
                Ok((stat, system)) if directory => {
                    let there = system.f_bavail.saturating_mul(system.f_frsize);
                    let (wanted, _) = shared.entry(stat.st_dev).or_insert((0, there));
                    *wanted = wanted.saturating_add(room);
                }
                _ => free = free.saturating_add(room),
            }
        }
        for (wanted, there) in shared.into_values() {
            free = free.saturating_add(wanted.min(there));
        }
        Room { capacity: used.saturating_add(free), free }
    }
}
