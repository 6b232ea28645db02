//! Scrubs the names of plain files.

use terrace_catalog::{Extent, Object};

use super::{Scrub, Subject};
use crate::Result;
use crate::devices::Device;
use crate::home::BadReplica;

impl Scrub<'_> {
    /// Counts plain files that are not at the object's key, because another program put a file there.
    pub(super) fn scrub_names(&mut self, subject: Subject, extents: &[Extent]) -> Result<()> {
        let Subject { key, object } = subject;
        let care = self.care;
        let names = &care.mover.names;
        for device in &care.tiers.devices {
            if names.find_misnamed(device, key, object, extents)?.is_none() {
                continue;
            }
            // The file may be about to be named, or the object may have changed.
            names.wait_and_update_target(device)?;
            let Some((object, extents)) = care.catalog.locate(key, 0, u64::MAX)? else { return Ok(()) };
            let Some(whole) = names.find_misnamed(device, key, &object, &extents)? else { continue };
            self.found.bad += 1;
            let files = device.target.files().filter(|_| self.repair);
            let named = files.is_some_and(|f| f.set_name(key, Some(&whole), &[]).is_ok_and(|named| named));
            if named || self.repair && self.make_new_file(device, key, &object)? {
                self.found.repaired += 1;
            } else if let Some(first) = extents.first() {
                let task = first.task(object.id, device.id);
                let files = first.replicas.iter().filter(|replica| replica.place.segment == whole.file);
                self.unreplaced.extend(files.map(|file| BadReplica { key: key.to_vec(), task, place: file.place }));
            }
        }
        Ok(())
    }

    /// Replaces a plain file that another program has made longer.
    fn make_new_file(&self, device: &Device, key: &[u8], object: &Object) -> Result<bool> {
        self.care.mover.names.owe_file(device, key)?;
        Ok(self.care.mover.make_all(Some(object.id), true)? > 0)
    }
}
