//! Sweeping: giving back what killed writers left that no commit names.

use std::collections::HashSet;

use crate::Result;
use crate::report::TierState;
use crate::store::{Device, Inner};
use crate::tier::Place;

/// A target is looked through when it takes more than this beside what the catalog knows of, and a part of that.
const WORTH: u64 = 4 << 20;
const PART: u64 = 16;

impl Inner {
    /// Gives back frames and plain files that no commit names. No other process may have the store open: then whoever
    /// wrote them is dead.
    pub(crate) fn sweep(&self) -> Result<()> {
        for device in self.tiers.devices.iter().filter(|device| device.state() == TierState::Ok) {
            if let Err(error) = self.sweep_drafts(device).and_then(|()| self.sweep_frames(device)) {
                tracing::debug!(target = %device.path.display(), %error, "not swept");
            }
        }
        Ok(())
    }

    fn sweep_drafts(&self, device: &Device) -> Result<()> {
        let files = device.target.plain_files().unwrap_or_default();
        if files.is_empty() {
            return Ok(());
        }
        let known: HashSet<u64> = self.catalog.segments(device.id)?.into_iter().map(|(id, _)| id).collect();
        for file in files.into_iter().filter(|file| !known.contains(file)) {
            // What stays is found again.
            let _ = device.target.discard(file);
        }
        Ok(())
    }

    fn sweep_frames(&self, device: &Device) -> Result<()> {
        let dying = self.catalog.dead(device.id, u64::MAX, u64::MAX, usize::MAX)?;
        let live: u64 = self.catalog.segments(device.id)?.iter().map(|(_, live)| live.bytes).sum();
        let known = live + dying.iter().map(|(_, place)| u64::from(place.length)).sum::<u64>();
        if device.space().is_ok_and(|space| space.used <= known + known / PART + WORTH) {
            return Ok(());
        }
        let mut named: HashSet<Place> = dying.into_iter().map(|(_, place)| place).collect();
        self.catalog.each_object(b"", |_, _, extents| {
            let replicas = extents.iter().flat_map(|extent| &extent.replicas);
            named.extend(replicas.filter(|replica| replica.target == device.id).map(|replica| replica.place));
            Ok(true)
        })?;
        let mut unnamed: Vec<Place> = Vec::new();
        let scanned = device.target.scan(&mut |place, _| {
            if !place.is_plain() && !named.contains(&place) {
                unnamed.push(place);
            }
        });
        if let Err(e) = scanned.and_then(|()| device.target.free(&unnamed)) {
            device.failed(&e);
        }
        tracing::info!(target = %device.path.display(), frames = unnamed.len(), "swept");
        Ok(())
    }
}
