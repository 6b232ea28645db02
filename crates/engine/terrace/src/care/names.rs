//! Corrects the names of plain files after a restart of the machine. Names are not synced, so some may belong to lost
//! commits, and others may be missing.

use std::collections::HashSet;

use terrace_tier::PLAIN_SEGMENT_BIT;

use super::Care;
use crate::devices::Device;
use crate::home::TargetNote;
use crate::report::TierState;
use crate::{Error, Result};

impl Care {
    /// Makes the names of plain files match the catalog: on all targets, or only on those where this is due. It costs nothing if no rule
    /// makes plain files, unless a target is an older copy of itself.
    pub(super) fn name_again(&self, on_all: bool) -> Result<()> {
        let on_all = on_all && self.planning.rules.now().has_plain();
        let with_files = self.tiers.devices.iter().filter(|device| device.capabilities.plain_files);
        for device in with_files {
            let due = TargetNote::names_due(&self.journal.dir, device.id);
            if on_all || due.holds() {
                let named = device.state() == TierState::Ok && self.name_again_on(device)?;
                due.set(!named)?;
            }
        }
        Ok(())
    }

    /// Returns the targets that work again and whose names are still to be checked.
    pub(super) fn names_due(&self) -> impl Iterator<Item = &Device> {
        let devices = self.tiers.devices.iter().filter(|device| device.state() == TierState::Ok);
        devices.filter(|device| TargetNote::names_due(&self.journal.dir, device.id).holds())
    }

    /// Makes the names on a target match the catalog. Returns false if the target cannot be reached.
    fn name_again_on(&self, device: &Device) -> Result<bool> {
        // Each process that names a file reads the catalog and the target under this lock. So this cannot undo a name that
        // was given a moment ago.
        let _lock = self.mover.names.wait_for_lock(device)?;
        let Some(files) = device.target.files() else { return Ok(true) };
        let names = match files.names() {
            Ok(names) => names,
            Err(error) => {
                device.failed(&error);
                return Ok(false);
            }
        };
        // What an older copy has too much keeps its names until it is swept: nothing else tells its keys.
        let is_left = TargetNote::sweep_due(&self.journal.dir, device.id).holds();
        let Some(left) = (if is_left { self.find_unknown_files(device)? } else { Some(HashSet::new()) }) else {
            return Ok(false);
        };
        let mut known = names.iter().filter(|(_, file)| !left.contains(file));
        known.try_for_each(|(key, file)| self.mover.names.update(device, key, &[*file]).map(drop))?;
        if !self.catalog.segments(device.id)?.iter().any(|(file, _)| file & PLAIN_SEGMENT_BIT != 0) {
            return Ok(true);
        }
        let mut misnamed = Vec::new();
        self.catalog.each_object(b"", |key, object, extents| {
            if self.mover.names.find_misnamed(device, key, object, extents)?.is_some() {
                misnamed.push(key.to_vec());
            }
            Ok::<_, Error>(true)
        })?;
        misnamed.iter().try_for_each(|key| self.mover.names.update(device, key, &[]).map(drop))?;
        Ok(device.state() == TierState::Ok)
    }
}
