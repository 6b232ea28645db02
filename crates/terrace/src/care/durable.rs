//! Making durable: frames first, then the log, then the mark that says so.

use crate::Result;
use crate::catalog::Edit;
use crate::config::TierKind;
use crate::store::{Device, Inner};

/// Copies of the log are kept on this many persistent targets.
const LOG_COPIES: usize = 3;

impl Inner {
    /// Syncs every segment that a commit has named since the last mark, the log and its copies, and marks it.
    ///
    /// # Errors
    /// A persistent target's failure: what it holds must not be called durable.
    pub(crate) fn sync_files(&self) -> Result<()> {
        let sequence = self.catalog.tail()?.sequence;
        let synced = self.catalog.synced()?;
        if synced + 1 >= sequence && synced > 0 {
            return self.copy_log(true);
        }
        for device in &self.tiers.devices {
            let segments = self.catalog.segments(device.id)?;
            let dirty: Vec<u64> =
                segments.into_iter().filter(|(_, live)| live.sequence > synced).map(|(id, _)| id).collect();
            if dirty.is_empty() {
                continue;
            }
            if let Err(e) = device.target.sync(&dirty)
                && self.tiers.tier(device).persistent
            {
                device.failed(&e);
                return Err(crate::Error::io(format!("syncing {}", device.path.display()))(e));
            }
        }
        crate::fail::point("sync:frames");
        self.catalog.log().sync(self.catalog.tail()?)?;
        crate::fail::point("sync:log");
        self.catalog.commit(Edit::Synced { sequence }.into())?;
        self.catalog.log().sync(self.catalog.tail()?)?;
        self.copy_log(true)
    }

    /// Brings the copies of the log on persistent targets up to date. A target that fails is set aside.
    pub(crate) fn copy_log(&self, durable: bool) -> Result<()> {
        let tail = self.catalog.tail()?;
        for device in self.log_copies() {
            if let Err(e) = self.catalog.log().copy_to(&device.path.join("log"), tail, durable) {
                device.failed(&e);
            }
        }
        Ok(())
    }

    /// The targets that hold a copy of the log.
    pub(crate) fn log_copies(&self) -> impl Iterator<Item = &Device> {
        let may = |d: &&Device| self.tiers.tier(d).persistent && self.config.tiers[d.tier].kind == TierKind::Directory;
        self.tiers.devices.iter().filter(may).take(LOG_COPIES)
    }
}
