//! Names of plain files after a restart of the machine: no sync covers them, so they may be of commits that were lost, or
//! not yet of those that are there.

use std::fs::File;
use std::path::PathBuf;

use terrace_tier::PLAIN_SEGMENT_BIT;

use super::Care;
use crate::devices::Device;
use crate::report::TierState;
use crate::{Error, Result};

impl Care {
    /// Sees that all names of plain files are those of what the catalog holds: on all targets, or only on those that could
    /// not be looked at when that was due. Where there are no plain files this costs nothing.
    pub(super) fn name_again(&self, on_all: bool) -> Result<()> {
        if !self.planning.rules.now().has_plain() {
            return Ok(());
        }
        let with_files = self.tiers.devices.iter().filter(|device| device.capabilities.plain_files);
        for device in with_files.filter(|device| on_all || self.are_names_due(device)) {
            let named = device.state() == TierState::Ok && self.name_again_on(device)?;
            self.note_names_due(device, !named)?;
        }
        Ok(())
    }

    /// Targets that are there again, and whose names could not be looked at when that was due.
    pub(super) fn names_due(&self) -> impl Iterator<Item = &Device> {
        let has_plain = self.planning.rules.now().has_plain();
        let devices = self.tiers.devices.iter().filter(move |device| has_plain && device.state() == TierState::Ok);
        devices.filter(|device| self.are_names_due(device))
    }

    fn are_names_due(&self, device: &Device) -> bool {
        self.names_due_note(device).exists()
    }

    /// The file that says that a target's names are still to be looked at.
    fn names_due_note(&self, device: &Device) -> PathBuf {
        self.journal.dir.join(format!("names-due-{}", device.id))
    }

    /// Notes whether a target's names are due. Neither is synced: after a power cut all names are due.
    fn note_names_due(&self, device: &Device, are_due: bool) -> Result<()> {
        let note = self.names_due_note(device);
        let noted = match (are_due, note.exists()) {
            (true, false) => File::create(&note).map(drop),
            (false, true) => std::fs::remove_file(&note),
            _ => Ok(()),
        };
        noted.map_err(Error::io(format!("noting {}", note.display())))
    }

    /// Whether that could be done.
    fn name_again_on(&self, device: &Device) -> Result<bool> {
        // Who names a file looks at the catalog and at the target under this lock: nothing is undone here that was just done.
        let _lock = self.mover.wait_for_names_lock(device)?;
        let Some(files) = device.target.files() else { return Ok(true) };
        let names = match files.names() {
            Ok(names) => names,
            Err(error) => {
                device.failed(&error);
                return Ok(false);
            }
        };
        names.iter().try_for_each(|(key, file)| self.mover.settle(device, key, &[*file]).map(drop))?;
        if !self.catalog.segments(device.id)?.iter().any(|(file, _)| file & PLAIN_SEGMENT_BIT != 0) {
            return Ok(true);
        }
        let mut misnamed = Vec::new();
        self.catalog.each_object(b"", |key, object, extents| {
            if self.mover.misnamed(device, key, object, extents)?.is_some() {
                misnamed.push(key.to_vec());
            }
            Ok::<_, Error>(true)
        })?;
        misnamed.iter().try_for_each(|key| self.mover.settle(device, key, &[]).map(drop))?;
        Ok(device.state() == TierState::Ok)
    }
}
