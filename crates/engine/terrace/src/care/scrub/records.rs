//! Checks what belongs to no object: the owners of shared frames, and the commit log.

use crate::Result;
use crate::care::Care;

impl Care {
    /// Compares the number of owners of each shared frame with the objects that name it, and returns how many differ. A wrong
    /// number would free a frame too early, or never.
    pub(super) fn check_owners(&self) -> Result<u64> {
        let wrong = self.catalog.miscounted_frames()?;
        if let Some(first) = wrong.first() {
            tracing::error!(
                frames = wrong.len(),
                object = first.name.object,
                recorded = first.recorded,
                counted = first.counted,
                "shared frames have a wrong number of owners; `terrace rebuild` counts them again"
            );
        }
        Ok(wrong.len() as u64)
    }

    /// Reads the commit log, and returns how many of its files are damaged. The catalog has what they say, until it is lost.
    pub(super) fn check_log(&self) -> Result<u64> {
        if self.catalog.is_shared() {
            // Its servers keep it.
            return Ok(0);
        }
        let log = self.catalog.log();
        let damaged = log.find_damaged(self.catalog.tail()?)?;
        if let Some(first) = damaged.first() {
            tracing::error!(
                files = damaged.len(),
                first = %first.display(),
                "the commit log is damaged; `terrace rebuild` makes it whole from its copies and the catalog"
            );
        }
        Ok(damaged.len() as u64)
    }
}
