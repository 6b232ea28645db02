//! Snapshots of the catalog: they bound the log, and the time that a rebuild takes.

use std::fs::{self, File};

use crate::log;
use crate::store::Inner;
use crate::{Error, Result};

impl Inner {
    /// Makes a snapshot where the log has filled a file since the last one, and deletes the log before it. Only the
    /// holder of the mover's lock may call this.
    pub(crate) fn snapshot_if_due(&self) -> Result<()> {
        if self.catalog.log().files()?.len() > 1 { self.snapshot() } else { Ok(()) }
    }

    pub(super) fn snapshot(&self) -> Result<()> {
        let log = self.catalog.log();
        let folder = log.folder();
        let new = folder.join("new");
        let tail = self.catalog.write_snapshot(&new)?;
        // What a rebuild starts from must not name bytes that a power loss can still take.
        self.mark_synced()?;
        if self.catalog.synced()? + 1 < tail.sequence {
            return Ok(());
        }
        crate::fail::point("snapshot:written");
        let context = || format!("naming a snapshot in {}", folder.display());
        fs::rename(&new, log::snapshot(folder, tail.sequence)).map_err(Error::io(context()))?;
        File::open(folder).and_then(|f| f.sync_all()).map_err(Error::io(context()))?;
        tracing::debug!(sequence = tail.sequence, "snapshot");
        crate::fail::point("snapshot:named");
        self.copy_log(true)?;
        log.trim(folder, tail.file).map_err(Error::io(format!("trimming {}", folder.display())))?;
        crate::fail::point("snapshot:trimmed");
        for copy in self.log_copies() {
            if log::snapshot(&copy.path.join("log"), tail.sequence).exists()
                && let Err(e) = log.trim(&copy.path.join("log"), tail.file)
            {
                copy.failed(&e);
            }
        }
        Ok(())
    }
}
