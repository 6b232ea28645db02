//! Finds the objects that only targets in memory have.

use terrace_catalog::{Replica, frames};

use super::Store;
use crate::Result;
use crate::devices::Device;

/// Objects that a restart of the machine takes, since no persistent tier has all their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolatileObjects {
    /// Their number.
    pub objects: u64,
    /// The key of the first one.
    pub first: Option<Vec<u8>>,
}

impl Store {
    /// Returns the objects that no persistent tier has as a whole: their rule or their requirement allows it, or their replicas are
    /// pending. What can be fetched from an origin again does not count. Looks at every object if a tier that is not persistent has bytes.
    pub fn find_volatile(&self) -> Result<VolatileObjects> {
        let tiers = &self.engine.tiers;
        let mut found = VolatileObjects::default();
        let is_volatile = |device: &&Device| !tiers.tier(device).persistent;
        let mut has_bytes = false;
        for device in tiers.devices.iter().filter(is_volatile) {
            has_bytes |= self.engine.catalog.segments(device.id)?.iter().any(|(_, live)| live.frames > 0);
        }
        if !has_bytes {
            return Ok(found);
        }
        let lasts = |replica: &Replica| tiers.device(replica.target).is_ok_and(|device| tiers.tier(device).persistent);
        self.engine.catalog.each_object(b"", |key, object, extents| {
            let can_be_fetched = crate::origins::is_at_origin(object);
            if !can_be_fetched && frames(extents).any(|extent| !extent.replicas.iter().any(lasts)) {
                found.objects += 1;
                found.first.get_or_insert_with(|| key.to_vec());
            }
            Ok::<_, crate::Error>(true)
        })?;
        Ok(found)
    }
}
