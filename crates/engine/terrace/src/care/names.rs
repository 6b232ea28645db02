//! Corrects the names of plain files after a restart of the machine. Names are not synced, so some may belong to lost
//! commits, and others may be missing.

use std::fs::File;
use std::path::PathBuf;

use terrace_tier::PLAIN_SEGMENT_BIT;

use super::Care;
use crate::devices::Device;
use crate::report::TierState;
use crate::{Error, Result};

impl Care {
    /// Makes the names of plain files match the catalog: on all targets, or only on those that could not be checked when
    /// this was due. It costs nothing if no rule makes plain files.
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

    /// Returns the targets that work again and whose names are still to be checked.
    pub(super) fn names_due(&self) -> impl Iterator<Item = &Device> {
        let has_plain = self.planning.rules.now().has_plain();
        let devices = self.tiers.devices.iter().filter(move |device| has_plain && device.state() == TierState::Ok);
        devices.filter(|device| self.are_names_due(device))
    }

    fn are_names_due(&self, device: &Device) -> bool {
        self.names_due_note(device).exists()
    }

    /// Returns the path of the note that says that a target's names are still to be checked.
    fn names_due_note(&self, device: &Device) -> PathBuf {
        self.journal.dir.join(format!("names-due-{}", device.id))
    }

    /// Writes or removes the note. It is not synced, because all names are due after a power cut.
    fn note_names_due(&self, device: &Device, are_due: bool) -> Result<()> {
        let note = self.names_due_note(device);
        let noted = match (are_due, note.exists()) {
            (true, false) => File::create(&note).map(drop),
            (false, true) => std::fs::remove_file(&note),
            _ => Ok(()),
        };
        noted.map_err(Error::io(format!("noting {}", note.display())))
    }

    /// Makes the names on a target match the catalog. Returns false if the target cannot be reached.
    fn name_again_on(&self, device: &Device) -> Result<bool> {
        // Each process that names a file reads the catalog and the target under this lock. So this cannot undo a name that
        // was given a moment ago.
        let _lock = self.mover.wait_for_names_lock(device)?;
        let Some(files) = device.target.files() else { return Ok(true) };
        let names = match files.names() {
            Ok(names) => names,
            Err(error) => {
                device.failed(&error);
                return Ok(false);
            }
        };
        names.iter().try_for_each(|(key, file)| self.mover.update_name(device, key, &[*file]).map(drop))?;
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
        misnamed.iter().try_for_each(|key| self.mover.update_name(device, key, &[]).map(drop))?;
        Ok(device.state() == TierState::Ok)
    }
}
