//! Drops cached bytes of origins: they can be fetched again, so they make room first.

use std::time::Duration;

use terrace_catalog::{Change, Edit, Extent, Object};
use terrace_tier::Space;

use super::Mover;
use super::drops::Staying;
use super::edits::{drop_replica, replica_on};
use crate::Result;
use crate::devices::Device;
use crate::origins::{DropCached, is_at_origin};
use crate::report::{Lacking, TierState};

/// The number of objects that are read at a time.
const OBJECTS_PER_PAGE: usize = 256;
/// The extents that go first are chosen among this many.
const MAX_COMPARED_EXTENTS: usize = 1 << 16;
/// The number of extents that one commit drops.
const EXTENTS_PER_COMMIT: usize = 256;
/// For bytes that found no room, up to this share of a target is made free.
const MAX_FREED_SHARE: u64 = 8;

/// For new bytes, at least this share of a target is made free, because each time takes a look at all cached extents.
const FREED_SHARE: u64 = 24;
/// The pause of a reader while another thread or process makes room.
const ROOM_PAUSE: Duration = Duration::from_millis(1);

/// A cached extent on a target.
struct Cached {
    last_read: u64,
    key: Vec<u8>,
    object: u64,
    extent: Extent,
}

impl Mover {
    /// Drops up to `excess` bytes of files of origins from a target, those that were not read for the longest time first.
    pub(super) fn uncache(&self, device: &Device, excess: u64) -> Result<()> {
        let mut left = excess;
        let mut edits = Vec::new();
        for Cached { key, object, extent, .. } in self.find_cached(device)? {
            if left == 0 {
                break;
            }
            let Some(replica) = replica_on(&extent, device) else { continue };
            left = left.saturating_sub(u64::from(replica.place.length));
            edits.push(match extent.replicas.len() {
                1 => uncache(&key, object, &extent),
                _ => drop_replica(&key, object, &extent, replica),
            });
            if edits.len() >= EXTENTS_PER_COMMIT {
                self.commit_moves(std::mem::take(&mut edits), Lacking::default(), Staying::Trusted)?;
            }
        }
        self.commit_moves(edits, Lacking::default(), Staying::Trusted)?;
        terrace_system::fail::point("uncache:committed");
        Ok(())
    }

    /// Makes room for a write that no target takes, if bytes of origins are in the way.
    pub(super) fn uncache_for(&self, bytes: u64) -> Result<()> {
        if !self.reader.origins.is_any() {
            return Ok(());
        }
        let Some(_lock) = self.locks.mover_at_once()? else { return Ok(()) };
        for device in self.tiers.devices.iter().filter(|device| device.state() != TierState::Away) {
            let wanted = (2 * bytes).max(Device::FRAMING_BYTES + bytes);
            let Ok(space) = device.space() else { continue };
            self.free_up(device, &space, wanted)?;
        }
        Ok(())
    }

    /// Drops older bytes of origins if new ones have found no room.
    pub(super) fn uncache_for_unkept(&self) -> Result<()> {
        let unkept = self.reader.origins.take_unkept();
        if unkept == 0 {
            return Ok(());
        }
        for device in self.tiers.devices.iter().filter(|device| device.state() != TierState::Away) {
            let Ok(space) = device.space() else { continue };
            self.free_up(device, &space, unkept.min(space.capacity / MAX_FREED_SHARE))?;
        }
        // Readers of what was dropped fetch it again.
        self.reaper.reap(Duration::ZERO)
    }

    /// Drops bytes of origins from a target, until as many as `wanted` are free or will be.
    fn free_up(&self, device: &Device, space: &Space, wanted: u64) -> Result<()> {
        let dead = self.catalog.dead(device.id, u64::MAX, u64::MAX, usize::MAX)?;
        let dead: u64 = dead.iter().map(|(_, place)| u64::from(place.length)).sum();
        let free = space.capacity.saturating_sub(space.used).saturating_add(dead);
        if free < wanted { self.uncache(device, wanted - free) } else { Ok(()) }
    }

    /// Returns whether a key names this object, and its bytes are at an origin.
    pub(super) fn is_cached(&self, key: &[u8], object: u64) -> Result<bool> {
        let named = self.catalog.object(key)?;
        Ok(named.is_some_and(|named| named.id == object && is_at_origin(&named)))
    }

    /// Drops a frame without a good replica, if its bytes are at an origin. Returns whether they are.
    pub(crate) fn uncache_bad(&self, key: &[u8], object: u64, extent: &Extent) -> Result<bool> {
        let named = self.catalog.object(key)?.filter(|named| named.id == object && is_at_origin(named));
        let Some(named) = named else { return Ok(false) };
        let edits = self.uncache_frame(key, &named, extent)?;
        self.catalog.commit(Change { expect: Vec::new(), edits })?;
        Ok(true)
    }

    /// Returns the edits that drop all of a frame of an object whose bytes are at an origin.
    pub(crate) fn uncache_frame(&self, key: &[u8], object: &Object, extent: &Extent) -> Result<Vec<Edit>> {
        let (start, end) = (extent.frame_offset(), extent.frame_offset() + u64::from(extent.raw_len));
        let found = self.catalog.locate(key, start, end)?.filter(|(now, _)| now.id == object.id);
        let extents = found.map(|(_, extents)| extents).unwrap_or_default();
        Ok(extents.iter().filter(|part| part.same_frame(extent)).map(|part| uncache(key, object.id, part)).collect())
    }

    /// Finds extents of origins on a target. Those that were not read for the longest time come first.
    fn find_cached(&self, device: &Device) -> Result<Vec<Cached>> {
        let mut found = Vec::new();
        for origin in &self.planning.rules.now().origins {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let page = self.catalog.list(origin.prefix.as_bytes(), after.as_deref(), OBJECTS_PER_PAGE)?;
                let Some((last, _)) = page.last() else { break };
                after = Some(last.clone());
                // Nothing is here of most files.
                let has_bytes =
                    |object: &Object| object.extents_in_record.as_ref().is_none_or(|extents| !extents.is_empty());
                for (key, _) in page.iter().filter(|(_, object)| is_at_origin(object) && has_bytes(object)) {
                    let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { continue };
                    for extent in extents.into_iter().filter(|extent| replica_on(extent, device).is_some()) {
                        let last_read = self.reader.origins.recency.last_read(object.id, extent.offset);
                        found.push(Cached { last_read, key: key.clone(), object: object.id, extent });
                    }
                }
                if found.len() >= MAX_COMPARED_EXTENTS {
                    break;
                }
            }
        }
        found.sort_by_key(|cached| (cached.last_read, cached.extent.write));
        Ok(found)
    }
}

impl DropCached for Mover {
    fn drop_cached(&self, bytes: u64) -> Result<bool> {
        let Some(_lock) = self.locks.mover_at_once()? else {
            std::thread::sleep(ROOM_PAUSE);
            return Ok(self.locks.may_move());
        };
        let before = self.catalog.tail()?.sequence;
        // What only lower tiers have goes first: bytes move down from the others.
        for device in self.tiers.devices.iter().rev().filter(|device| device.state() != TierState::Away) {
            let Ok(space) = device.space() else { continue };
            let wanted = (2 * bytes).max(Device::FRAMING_BYTES + bytes).max(space.capacity / FREED_SHARE);
            self.free_up(device, &space, wanted)?;
            if self.catalog.tail()?.sequence != before {
                break;
            }
        }
        // Readers of what was dropped fetch it again.
        self.reaper.reap(Duration::ZERO)?;
        for device in &self.tiers.devices {
            if device.space().is_ok_and(|space| space.used < space.capacity && !space.read_only) {
                device.try_again();
            }
        }
        Ok(self.catalog.tail()?.sequence != before)
    }
}

/// Returns the edit that drops a cached extent.
pub(super) fn uncache(key: &[u8], object: u64, extent: &Extent) -> Edit {
    Edit::Uncache { key: key.to_vec(), object, start: extent.offset, end: extent.end() }
}
