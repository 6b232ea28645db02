//! Space: eviction at the high watermark, giving dead places back, and waiting for room.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{BATCH, REST};
use crate::catalog::{Change, Edit, Extent, Replica};
use crate::read::task_of;
use crate::store::Inner;
use crate::{Error, Result};

/// How long a dead frame's bytes stay for readers that looked it up before.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// How long a write waits for room before it fails.
const NO_SPACE: Duration = Duration::from_secs(30);
/// Places given back by one commit.
const FREED: usize = 1024;

impl Inner {
    /// Called by a write that no target took: makes room, or waits for it.
    ///
    /// # Errors
    /// [`Error::NoSpace`] once the write has waited 30 seconds, or where no target is left at all.
    pub(crate) fn make_room(&self, waiting_since: Instant) -> Result<()> {
        if waiting_since.elapsed() > NO_SPACE {
            return Err(Error::NoSpace { tiers: self.tiers.describe() });
        }
        self.mark_synced()?;
        self.reap(Duration::ZERO)?;
        if let Some(_lock) = self.mover_lock()? {
            let tasks = self.catalog.owed(None, BATCH)?;
            self.make(&tasks)?;
            self.evict()?;
        }
        std::thread::sleep(REST / 10);
        for device in &self.tiers.devices {
            if device.space().is_ok_and(|s| s.used < s.capacity) {
                device.try_again();
            }
        }
        Ok(())
    }

    /// Where a target is above its high watermark, drops replicas that have another on a lower tier.
    pub(crate) fn evict(&self) -> Result<()> {
        for device in &self.tiers.devices {
            let mark = self.tiers.tier(device).high_watermark;
            let Ok(space) = device.space() else { continue };
            let keep = (space.capacity as f64 * mark) as u64;
            if space.used <= keep {
                continue;
            }
            let mut excess = space.used - keep;
            let persistent = self.tiers.tier(device).persistent;
            self.catalog.each_object(b"", |key, object, extents| {
                let mut edits = Vec::new();
                for extent in extents {
                    let lower = |r: &Replica| self.tiers.device(r.target).is_ok_and(|d| d.tier > device.tier);
                    let Some(replica) = extent.replicas.iter().find(|r| r.target == device.id) else { continue };
                    if excess == 0 || !extent.replicas.iter().any(|r| lower(r) && self.outlives(r)) {
                        continue;
                    }
                    edits.push(drop_replica(key, object.id, extent, replica));
                    excess = excess.saturating_sub(u64::from(replica.place.length));
                }
                if !edits.is_empty() {
                    if persistent {
                        // What is left must outlive a loss of power as what goes does.
                        self.sync_files()?;
                    }
                    self.catalog.commit(Change { expect: Vec::new(), edits })?;
                    crate::fail::point("evict:committed");
                }
                Ok(excess > 0)
            })?;
        }
        Ok(())
    }

    /// Whether a replica is on a tier that outlives a reboot.
    pub(super) fn outlives(&self, replica: &Replica) -> bool {
        self.tiers.device(replica.target).is_ok_and(|d| self.tiers.tier(d).persistent)
    }

    /// Carries out queued frees that a sync covers and whose grace has passed.
    pub(crate) fn reap(&self, grace: Duration) -> Result<()> {
        self.drop_dead_leases()?;
        let synced = self.catalog.synced()?;
        // Whoever made the mark may not have synced it yet, and a rebuild that does not find it looks for the frames.
        let make_durable = || self.catalog.log().sync(self.catalog.tail()?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for device in &self.tiers.devices {
            loop {
                let dead = self.catalog.dead(device.id, synced, now.saturating_sub(grace).as_secs(), FREED)?;
                if dead.is_empty() {
                    break;
                }
                make_durable()?;
                let places: Vec<_> = dead.iter().map(|(_, place)| *place).collect();
                if let Err(e) = device.target.free(&places) {
                    // They stay queued, and are freed when the target is back.
                    device.failed(&e);
                    break;
                }
                crate::fail::point("reap:freed");
                self.catalog.commit(Edit::Freed { target: device.id, places: dead }.into())?;
            }
            let mut segments = self.catalog.segments(device.id)?;
            segments.retain(|(_, live)| live.frames == 0 && live.sequence <= synced);
            // Readers may still be at what died in it.
            let dying = if segments.is_empty() { HashSet::new() } else { self.catalog.dying(device.id)? };
            for (segment, _) in segments.into_iter().filter(|(segment, _)| !dying.contains(segment)) {
                make_durable()?;
                if device.target.discard(segment).unwrap_or(false) {
                    self.catalog.commit(Edit::Discarded { target: device.id, segment }.into())?;
                }
            }
        }
        Ok(())
    }
}

/// The edit that takes a replica off its extent, for good.
pub(super) fn drop_replica(key: &[u8], object: u64, extent: &Extent, replica: &Replica) -> Edit {
    let task = task_of(object, extent, replica);
    Edit::Lost { task, key: serde_bytes::ByteBuf::from(key), place: replica.place, owed: None }
}
