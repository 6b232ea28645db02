//! An object as it was at one time.

use std::time::{Duration, Instant};

use terrace_catalog::{Extent, Object};
use terrace_format::key;

use super::{Lease, Store};
use crate::{Error, Result};

/// A read that takes longer than this pins its frames. Until then the grace period of dropped frames is enough.
const LONG_READ_TIME: Duration = Duration::from_secs(1);

/// An object and all its extents, as they were in the catalog at one time. Takes about 150 bytes of memory for each extent.
pub(super) struct ObjectSnapshot {
    store: Store,
    key: Vec<u8>,
    pub object: Object,
    extents: Vec<Extent>,
    since: Instant,
    lease: Option<Lease>,
    /// Whether the lease existed before any frame of the object could be dropped.
    pinned: bool,
}

impl ObjectSnapshot {
    /// Takes a snapshot of the current object. Only the grace period of dropped frames keeps its frames.
    pub fn of(store: &Store, key: &[u8]) -> Result<ObjectSnapshot> {
        key::check(key)?;
        store.catch_up()?;
        let found = store.engine.catalog.locate(key, 0, u64::MAX)?;
        let (object, extents) = found.ok_or_else(|| Error::not_found(key))?;
        let (store, key, since) = (store.clone(), key.to_vec(), Instant::now());
        Ok(ObjectSnapshot { store, key, object, extents, since, lease: None, pinned: false })
    }

    /// Takes a snapshot of the current object, which stays pinned as long as the snapshot lives.
    pub fn pinned(store: &Store, key: &[u8]) -> Result<ObjectSnapshot> {
        loop {
            let mut snapshot = ObjectSnapshot::of(store, key)?;
            snapshot.hold()?;
            // Frames that were dropped before the lease existed may be gone. If the object has changed, another attempt
            // takes its new state.
            let now = store.engine.catalog.locate(key, 0, u64::MAX)?;
            match now {
                Some((object, extents)) if snapshot.is(&object) => {
                    (snapshot.extents, snapshot.pinned) = (extents, true);
                    return Ok(snapshot);
                }
                _ => {}
            }
        }
    }

    fn is(&self, object: &Object) -> bool {
        (self.object.id, self.object.generation) == (object.id, object.generation)
    }

    fn hold(&mut self) -> Result<()> {
        self.lease = Some(Lease::take(&self.store, self.object.id, self.object.generation)?);
        Ok(())
    }

    /// Pins the frames once the read has taken long.
    pub fn hold_if_long(&mut self) -> Result<()> {
        if self.lease.is_none() && self.since.elapsed() > LONG_READ_TIME { self.hold() } else { Ok(()) }
    }

    /// Returns the end of the hole with the object's byte `offset`, or `offset` itself if it is in no hole.
    pub fn end_of_hole(&self, offset: u64) -> u64 {
        let next = self.extents.partition_point(|extent| extent.end() <= offset);
        let data = self.extents.get(next).map_or(self.object.length, |extent| extent.offset);
        data.min(self.object.length).max(offset)
    }

    /// Returns the end of the data from the object's byte `offset` on: the next hole, or the object's end.
    pub fn end_of_data(&self, offset: u64) -> u64 {
        let mut end = offset;
        let next = self.extents.partition_point(|extent| extent.end() <= offset);
        for extent in &self.extents[next..] {
            if extent.offset > end {
                break;
            }
            end = extent.end();
        }
        end.min(self.object.length)
    }

    /// Fills `out` from the object's byte `offset` on. Returns the number of bytes read, which is smaller than `out` only at
    /// the object's end.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let length = self.object.length.saturating_sub(offset).min(out.len() as u64) as usize;
        let (end, out) = (offset + length as u64, &mut out[..length]);
        let first = self.extents.partition_point(|extent| extent.end() <= offset);
        let last = self.extents.partition_point(|extent| extent.offset < end);
        let mut extents = self.extents[first..last].to_vec();
        loop {
            let failed = match self.store.engine.reader.read_extents(&self.key, &self.object, &extents, offset, out) {
                Ok(()) => {
                    self.store.engine.hotness.touch(&self.key, offset, length as u64);
                    return Ok(length);
                }
                Err(failed) => failed,
            };
            // This is damage only if the catalog still names the same frames, or if they are pinned.
            match self.store.engine.catalog.locate(&self.key, offset, end)? {
                Some((object, now)) if self.is(&object) => {
                    if same_frames(&now, &extents) {
                        return Err(self.store.engine.reader.failed(&self.key, &object, failed));
                    }
                    extents = now;
                }
                _ if self.pinned => return Err(failed),
                _ => return Err(Error::Replaced { key: key::show(&self.key) }),
            }
        }
    }
}

/// Returns whether the catalog names the same replicas of the same frames.
pub(super) fn same_frames(a: &[Extent], b: &[Extent]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_frame(b) && a.replicas == b.replicas)
}
