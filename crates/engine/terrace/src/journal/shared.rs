//! Makes the commits of a shared log durable: the log is, so the targets of all nodes remain to be synced.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use terrace_catalog::{Extent, TargetId, frames};

use super::Journal;
use crate::devices::Device;
use crate::{Error, Result};

/// How long a sync waits for other nodes, which note about once a second what they have synced.
const MAX_MARK_WAIT: Duration = Duration::from_secs(3);
const MARK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A target that could not be synced.
struct Unsynced<'a> {
    device: &'a Device,
    segments: Vec<u64>,
    error: io::Error,
}

impl Journal {
    /// Syncs the persistent targets of all nodes, as far as their nodes have not done it since. A target whose node has died may stay
    /// as it is, if all frames that are not synced there have another replica that is: all frames of the store, or of some objects.
    pub(super) fn sync_shared(&self, objects: Option<&[u64]>) -> Result<()> {
        let mut unsynced = Vec::new();
        for device in self.tiers.devices.iter().filter(|device| self.tiers.tier(device).persistent) {
            let synced = self.catalog.served(device.id)?.map_or(0, |served| served.synced);
            let segments = self.needed_segments(device, synced)?;
            if let Err(error) = self.sync_settled(device, &segments) {
                device.failed(&error);
                unsynced.push(Unsynced { device, segments, error });
            }
        }
        if self.are_elsewhere(&unsynced, objects)? {
            return Ok(());
        }
        let paths: Vec<String> = unsynced.iter().map(|unsynced| unsynced.device.path.display().to_string()).collect();
        let first = unsynced.into_iter().next();
        first.map_or(Ok(()), |Unsynced { error, .. }| Err(Error::io(format!("syncing {}", paths.join(" and ")))(error)))
    }

    /// Syncs all targets, and waits for a moment until their nodes have noted that in the log. The bytes are synced, even if a node does
    /// not say so in time.
    pub(super) fn mark_shared(&self) -> Result<()> {
        let sequence = self.catalog.tail()?.sequence;
        self.sync_shared(None)?;
        let until = Instant::now() + MAX_MARK_WAIT;
        while self.catalog.synced()? < sequence && Instant::now() < until {
            thread::sleep(MARK_POLL_INTERVAL);
        }
        Ok(())
    }

    /// Syncs the frames that commits after `synced` have named on a target of this node.
    pub fn sync_target(&self, device: &Device, synced: u64) -> io::Result<()> {
        let segments = self.needed_segments(device, synced).map_err(|e| io::Error::other(e.to_string()))?;
        if segments.is_empty() { Ok(()) } else { device.target.sync(&segments) }
    }

    /// Syncs segments of a target, once its node knows which frames a loss of power has taken.
    fn sync_settled(&self, device: &Device, segments: &[u64]) -> io::Result<()> {
        let is_doubtful = || match self.catalog.served(device.id) {
            Ok(served) => Ok(served.is_some_and(|served| served.doubtful)),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        if segments.is_empty() {
            return Ok(());
        }
        let until = Instant::now() + MAX_MARK_WAIT;
        while is_doubtful()? {
            if Instant::now() > until {
                let reason = "its machine has lost power, and its node is not there or still looks for what is lost";
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            thread::sleep(MARK_POLL_INTERVAL);
        }
        device.target.sync(segments)
    }

    /// Returns the segments to which commits after `synced` have added frames, and which hold some.
    fn needed_segments(&self, device: &Device, synced: u64) -> Result<Vec<u64>> {
        let mut segments = self.catalog.segments(device.id)?;
        segments.retain(|(_, live)| live.sequence > synced && live.frames > 0);
        Ok(segments.into_iter().map(|(id, _)| id).collect())
    }

    /// Returns whether every frame in these segments, of some objects or of all, has a replica on another persistent target, and those targets are synced.
    fn are_elsewhere(&self, unsynced: &[Unsynced<'_>], objects: Option<&[u64]>) -> Result<bool> {
        let is_synced = |target: TargetId| {
            let device = self.tiers.device(target).ok();
            device.is_some_and(|device| self.tiers.tier(device).persistent)
                && unsynced.iter().all(|unsynced| unsynced.device.id != target)
        };
        let is_at_risk = |extent: &Extent| {
            let is_unsynced = |target, segment| {
                unsynced.iter().any(|unsynced| unsynced.device.id == target && unsynced.segments.contains(&segment))
            };
            extent.replicas.iter().any(|replica| is_unsynced(replica.target, replica.place.segment))
                && !extent.replicas.iter().any(|replica| is_synced(replica.target))
        };
        if unsynced.is_empty() {
            return Ok(true);
        }
        let mut are_elsewhere = true;
        // A shared frame counts for the object that wrote it, and for those that name it.
        let is_asked_for = |object: u64, extent: &Extent| {
            objects.is_none_or(|some| some.contains(&object) || some.contains(&extent.task(object, 0).object))
        };
        let is_safe = |object, extents: &[Extent]| {
            !frames(extents).any(|extent| is_asked_for(object, extent) && is_at_risk(extent))
        };
        self.catalog.each_object(b"", |_, object, extents| {
            are_elsewhere = is_safe(object.id, extents);
            Ok::<_, Error>(are_elsewhere)
        })?;
        for (object, _) in self.catalog.staged()? {
            are_elsewhere &= is_safe(object, &self.catalog.staged_extents(object)?);
        }
        Ok(are_elsewhere)
    }
}
