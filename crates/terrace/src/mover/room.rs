//! Space: eviction at the high watermark, giving dead places back, and waiting for room.

use std::collections::HashSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use terrace_plan::snapshot::TierSet;

use super::request::owe;
use super::{BATCH, REST};
use crate::catalog::{Change, Edit, Extent, Replica, TargetId, Task, frames};
use crate::read::task_of;
use crate::store::{Device, Inner};
use crate::{Error, Result};

/// How long a dead frame's bytes stay for readers that looked it up before.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// How long a write waits for room before it fails.
const NO_SPACE: Duration = Duration::from_secs(30);
/// What is evicted first is what was hardly read, then what was read a little, and last what is read all the time.
const WARMTHS: [f64; 4] = [0.5, 4.0, 32.0, f64::INFINITY];
/// Replicas evicted by one commit, about, and with one sync.
const EVICTED: usize = 256;
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
        self.clear()?;
        std::thread::sleep(REST / 10);
        Ok(())
    }

    /// Gives back what can be given back now, and lets full targets be tried again.
    pub(super) fn clear(&self) -> Result<()> {
        self.mark_synced()?;
        self.reap(Duration::ZERO)?;
        if let Some(_lock) = self.mover_lock()? {
            let tasks = self.catalog.owed(None, BATCH)?;
            self.make(&tasks, false)?;
            self.evict()?;
        }
        for device in &self.tiers.devices {
            if device.space().is_ok_and(|s| s.used < s.capacity) {
                device.try_again();
            }
        }
        Ok(())
    }

    /// Where a target is above its high watermark, drops replicas, the coldest first. What has no other on a lower tier is owed
    /// to one, and leaves when it is there.
    pub(crate) fn evict(&self) -> Result<()> {
        let last = self.tiers.tiers.len() - 1;
        for device in self.tiers.devices.iter().filter(|device| device.tier < last) {
            let mark = self.tiers.tier(device).high_watermark;
            let Ok(space) = device.space() else { continue };
            let mut excess = space.used.saturating_sub((space.capacity as f64 * mark) as u64);
            if excess > 0 {
                // What left before is still there for those who read it.
                let dead = self.catalog.dead(device.id, u64::MAX, u64::MAX, usize::MAX)?;
                excess = excess.saturating_sub(dead.iter().map(|(_, place)| u64::from(place.length)).sum());
            }
            // What is hardly read leaves even where it must be copied first; only then what is hot.
            for warmth in WARMTHS {
                self.evict_up_to(device, warmth, &mut excess, true)?;
                self.evict_up_to(device, warmth, &mut excess, false)?;
            }
        }
        Ok(())
    }

    /// Evicts from a device what is at most so warm, until no excess is left: what has another replica on a lower tier
    /// (`copied`), or what has none.
    fn evict_up_to(&self, device: &Device, warmth: f64, excess: &mut u64, copied: bool) -> Result<()> {
        if *excess == 0 {
            return Ok(());
        }
        let persistent = self.tiers.tier(device).persistent;
        let lower = TierSet::of(device.tier + 1..self.tiers.tiers.len());
        let mut edits = Vec::new();
        let commit = |edits: &mut Vec<Edit>| {
            if edits.is_empty() {
                return Ok(());
            }
            if persistent && copied {
                // What is left must outlive a loss of power as what goes does.
                self.sync_files()?;
            }
            self.catalog.commit(Change { expect: Vec::new(), edits: std::mem::take(edits) })?;
            crate::fail::point("evict:committed");
            Ok(())
        };
        self.catalog.each_object(b"", |key, object, extents| {
            for extent in frames(extents) {
                let below = |r: &Replica| self.tiers.device(r.target).is_ok_and(|d| d.tier > device.tier);
                let Some(replica) = extent.replicas.iter().find(|r| r.target == device.id) else { continue };
                let has_copy = extent.replicas.iter().any(|r| below(r) && self.outlives(r));
                if *excess == 0 || has_copy != copied || self.hotness.score(key, extent.offset, object.length) > warmth
                {
                    continue;
                }
                if copied {
                    edits.push(drop_replica(key, object.id, extent, replica));
                } else if !self.owe_below(key, object.id, extent, replica, lower, &mut edits)? {
                    continue;
                }
                *excess = excess.saturating_sub(u64::from(replica.place.length));
            }
            if edits.len() >= EVICTED {
                commit(&mut edits)?;
            }
            Ok(*excess > 0)
        })?;
        commit(&mut edits)
    }

    /// Owes an extent's replica to a lower tier, after which it leaves its own; true if it leaves.
    fn owe_below(
        &self,
        key: &[u8],
        object: u64,
        extent: &Extent,
        replica: &Replica,
        lower: TierSet,
        edits: &mut Vec<Edit>,
    ) -> Result<bool> {
        let owed = self.catalog.owed_to(&task_of(object, extent, replica))?;
        if !owed.is_empty() {
            // It is on its way already, or another is, which it can leave for then.
            return Ok(true);
        }
        let stay = extent.replicas.iter().filter(|r| *r != replica);
        let beside: Vec<TargetId> = stay.map(|r| r.target).collect();
        let volatile = self.rules.now().rule_for(key).is_some_and(|rule| rule.volatile) || !self.outlives(replica);
        let place = self.placer_for(object, key).place_on(lower, extent.raw_len as usize, &beside, volatile);
        if let Some(target) = place {
            edits.push(owe(key, Task { target, ..task_of(object, extent, replica) }, extent, Some(replica.target)));
        }
        Ok(place.is_some())
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
            let mut dying = if segments.is_empty() { HashSet::new() } else { self.catalog.dying(device.id)? };
            // A file that still stands under its key is known by its number.
            if self.rules.now().has_plain() {
                self.follow(device)?;
                for (_, noted) in self.catalog.unfollowed(device.id, b"", usize::MAX)? {
                    dying.extend(noted.files);
                }
            }
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
