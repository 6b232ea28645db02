//! The space of targets.

use std::collections::HashMap;

use super::{Device, TierList};
use crate::report::TierState;

impl TierList {
    /// Returns the bytes that these targets hold, and the bytes that they can take together, without targets that are away.
    pub fn used_and_free<'a>(&self, devices: impl Iterator<Item = &'a Device>) -> (u64, u64) {
        let (mut used, mut free) = (0u64, 0u64);
        // For each file system: the bytes that its targets may take, and the bytes that are free.
        let mut shared: HashMap<u64, (u64, u64)> = HashMap::new();
        for device in devices.filter(|device| device.state() != TierState::Away) {
            let Ok(space) = device.space() else { continue };
            used = used.saturating_add(space.used);
            let room = space.capacity.saturating_sub(space.used);
            match rustix::fs::stat(&device.path).and_then(|stat| Ok((stat, rustix::fs::statvfs(&device.path)?))) {
                Ok((stat, system)) if device.capabilities.local_path => {
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
        (used, free)
    }
}
