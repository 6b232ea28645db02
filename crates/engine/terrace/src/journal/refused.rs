//! Syncs a target on which bytes were lost when an earlier sync failed, as soon as no object needs them any more: their replica was
//! replaced, or their object was removed.
//!
//! Otherwise each sync would fail for good: the places of lost frames are freed after a mark, and no mark is made without a sync.

use std::io;

use terrace_format::frame::{Header, is_payload_of};
use terrace_tier::{FRAME_ALIGNMENT, Place};

use super::Journal;
use crate::Result;
use crate::devices::Device;

impl Journal {
    /// Syncs a target again after it failed with `error`, without the frames that are lost and that no power cut brings back.
    ///
    /// # Errors
    /// The outer one if the catalog cannot be read, the inner one if the target fails again.
    pub(super) fn sync_without_lost(&self, device: &Device, synced: u64, error: io::Error) -> Result<io::Result<()>> {
        // Before the dirty segments are listed, so that these hold all bytes of the commits up to this one. A commit that may be undone
        // brings back the frames that it freed.
        let lasting = self.last_lasting()?;
        let undone = self.catalog.dying(device.id, lasting)?;
        let dirty = self.dirty_segments(device, synced)?;
        let mut needed = Vec::with_capacity(dirty.len());
        for &id in &dirty {
            let is_named = self.catalog.segment(device.id, id)?.is_some_and(|live| live.frames > 0);
            if is_named || undone.contains(&id) {
                needed.push(id);
            }
        }
        let mut lost = Vec::new();
        for (_, place) in self.catalog.dead(device.id, lasting, u64::MAX, usize::MAX)? {
            if needed.contains(&place.segment) && !place.is_plain() {
                self.find_lost(device, place, &mut lost);
            }
        }
        if lost.is_empty() && needed.len() == dirty.len() {
            return Ok(Err(error));
        }
        tracing::info!(target = %device.path.display(), frames = lost.len(), "frames that a failed sync lost are not needed any more");
        // Freed now, and once more after the mark, which does no harm: no place is used twice. Good frames stay until then, because
        // the commits that replace them are not durable yet.
        let freed = if lost.is_empty() { Ok(()) } else { device.target.free(&lost) };
        Ok(freed.and_then(|()| if needed.is_empty() { Ok(()) } else { device.target.sync(&needed) }))
    }

    /// Adds the frames that have a header, but not its payload, in a dead place, which may be that of several frames.
    fn find_lost(&self, device: &Device, place: Place, lost: &mut Vec<Place>) {
        let mut bytes = vec![0; place.length as usize];
        // What cannot be read is not given up: the sync fails again, and says so.
        if device.target.read(place, 0, &mut bytes).is_err() {
            return;
        }
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let offset = place.offset + at as u64;
            let here = Place { segment: place.segment, offset, length: 0 };
            let Ok(header) = Header::read(rest, self.catalog.log().store(), here) else {
                at += FRAME_ALIGNMENT as usize;
                continue;
            };
            let length = header.frame_len() as usize;
            let payload = rest.get(header.written_len()..length);
            if !payload.is_some_and(|payload| is_payload_of(&header, payload)) {
                lost.push(Place { length: length as u32, ..here });
            }
            at = (at + length).next_multiple_of(FRAME_ALIGNMENT as usize);
        }
    }
}
