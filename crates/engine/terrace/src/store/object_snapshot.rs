//! An object as it was at one time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_catalog::{Extent, Object};
use terrace_format::frame::MAX_EXTENT_BYTES;
use terrace_format::key;

use super::{Lease, Store};
use crate::origins::is_at_origin;
use crate::{Error, Result};

/// A read that takes longer than this pins its frames. Until then the grace period of dropped frames is enough.
const LONG_READ_TIME: Duration = Duration::from_secs(1);

/// An object and all its extents, as they were in the catalog at one time. Takes about 150 bytes of memory for each extent.
pub(super) struct ObjectSnapshot {
    store: Store,
    key: Vec<u8>,
    pub object: Object,
    extents: Vec<Extent>,
    /// Of a file of an origin, the extents that were seen since, by their offsets: bytes of it are fetched while it is open. A leaf, held for a
    /// lookup or an update.
    fetched: Mutex<BTreeMap<u64, Extent>>,
    since: Instant,
    lease: Option<Lease>,
    /// Whether the lease existed before any frame of the object could be dropped.
    pinned: bool,
}

impl ObjectSnapshot {
    /// Takes a snapshot of the current object. Only the grace period of dropped frames keeps its frames.
    pub fn of(store: &Store, key: &[u8]) -> Result<ObjectSnapshot> {
        key::check(key)?;
        store.refresh(key)?;
        let found = store.engine.catalog.locate(key, 0, u64::MAX)?;
        let Some((object, extents)) = found else {
            return if store.ask_new_origin(key)? {
                ObjectSnapshot::of(store, key)
            } else {
                Err(Error::not_found(key))
            };
        };
        let (store, key, since) = (store.clone(), key.to_vec(), Instant::now());
        Ok(ObjectSnapshot { store, key, object, extents, fetched: Mutex::default(), since, lease: None, pinned: false })
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
        if is_at_origin(&self.object) {
            return offset;
        }
        let next = self.extents.partition_point(|extent| extent.end() <= offset);
        let data = self.extents.get(next).map_or(self.object.length, |extent| extent.offset);
        data.min(self.object.length).max(offset)
    }

    /// Returns the end of the data from the object's byte `offset` on: the next hole, or the object's end.
    pub fn end_of_data(&self, offset: u64) -> u64 {
        if is_at_origin(&self.object) {
            return self.object.length.max(offset);
        }
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
        let is_at_origin = is_at_origin(&self.object);
        let mut extents = if is_at_origin { self.extents_now(offset, end)? } else { self.extents_of(offset, end) };
        loop {
            let failed = match self.store.engine.reader.read_extents(&self.key, &self.object, &extents, offset, out) {
                Ok(()) => {
                    if is_at_origin {
                        // What was fetched stays readable, even if the file is replaced from now on.
                        let now = self.extents_now(offset, end)?;
                        self.store.tend_origins();
                        self.store.engine.origins.note_read(&self.key, &self.object, &now, offset, length as u64);
                    }
                    self.store.engine.hotness.touch(&self.key, offset, length as u64);
                    return Ok(length);
                }
                Err(failed) => failed,
            };
            // This is damage only if the catalog still names the same frames, or if they are pinned.
            match self.store.engine.catalog.locate(&self.key, offset, end)? {
                Some((object, now)) if self.is(&object) => {
                    if same_frames(&now, &extents) {
                        return Err(self.store.engine.reader.note_if_lost(&self.key, &object, failed));
                    }
                    extents = now;
                }
                _ if self.pinned => return Err(failed),
                _ => return Err(Error::Replaced { key: key::show(&self.key) }),
            }
        }
    }

    fn extents_of(&self, offset: u64, end: u64) -> Vec<Extent> {
        let first = self.extents.partition_point(|extent| extent.end() <= offset);
        let last = self.extents.partition_point(|extent| extent.offset < end);
        self.extents[first..last].to_vec()
    }

    /// Returns the extents of a range as they are now, and remembers them. Once the key names another object, those that are remembered.
    fn extents_now(&self, offset: u64, end: u64) -> Result<Vec<Extent>> {
        let found = self.store.engine.catalog.locate(&self.key, offset, end)?;
        let mut fetched = self.fetched.lock();
        if fetched.is_empty() {
            fetched.extend(self.extents.iter().map(|extent| (extent.offset, extent.clone())));
        }
        if let Some((_, now)) = found.filter(|(object, _)| self.is(object)) {
            // Those that were seen before may lie below a newer one.
            let from = now.first().map_or(offset, |first| first.offset.min(offset));
            let to = now.last().map_or(end, |last| last.end().max(end));
            let old: Vec<u64> = self.overlapping(&fetched, from, to).map(|extent| extent.offset).collect();
            old.iter().for_each(|offset| drop(fetched.remove(offset)));
            fetched.extend(now.into_iter().map(|extent| (extent.offset, extent)));
        }
        Ok(self.overlapping(&fetched, offset, end).cloned().collect())
    }

    fn overlapping<'e>(
        &self,
        extents: &'e BTreeMap<u64, Extent>,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = &'e Extent> {
        let first = start.saturating_sub(u64::from(MAX_EXTENT_BYTES));
        extents.range(first..end.max(first)).map(|(_, extent)| extent).filter(move |extent| extent.end() > start)
    }
}

/// Returns whether the catalog names the same replicas of the same frames.
pub(super) fn same_frames(a: &[Extent], b: &[Extent]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_frame(b) && a.replicas == b.replicas)
}
