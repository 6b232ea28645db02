//! Names of plain files when the catalog was made anew: they may be of commits that were lost, or not yet of those that
//! are there.

use crate::Result;
use crate::report::TierState;
use crate::store::{Device, Inner};

impl Inner {
    /// Sees that all names of plain files are those of what the catalog holds.
    pub(super) fn name_again(&self) -> Result<()> {
        if self.rules.now().has_plain() {
            for device in self.tiers.devices.iter().filter(|device| device.state() == TierState::Ok) {
                self.name_again_on(device)?;
            }
        }
        Ok(())
    }

    fn name_again_on(&self, device: &Device) -> Result<()> {
        let Some(_lock) = self.names_lock(device)? else { return Ok(()) };
        match device.target.plain_names() {
            Ok(names) => names.iter().try_for_each(|(key, file)| self.settle(device, key, &[*file]).map(drop))?,
            Err(e) => device.failed(&e),
        }
        let mut misnamed = Vec::new();
        self.catalog.each_object(b"", |key, object, extents| {
            if self.misnamed(device, key, object, extents)?.is_some() {
                misnamed.push(key.to_vec());
            }
            Ok(true)
        })?;
        misnamed.iter().try_for_each(|key| self.settle(device, key, &[]).map(drop))
    }
}
