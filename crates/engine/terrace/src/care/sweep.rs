//! Sweeping: frees the frames and files that killed writers left and no commit names.

use std::collections::HashSet;

use terrace_tier::Place;

use super::{Care, Discard};
use crate::devices::Device;
use crate::report::TierState;
use crate::{Error, Result};

/// A target is searched for frames if it uses more bytes than the catalog knows of, by more than this ...
const MIN_SWEPT_BYTES: u64 = 4 << 20;
/// ... and the n-th part of what the catalog knows of.
const MIN_SWEPT_PART: u64 = 16;

impl Care {
    /// Frees frames and plain files that no commit names, and returns their size in bytes. No other process may have the
    /// store open: then the writers of such frames are dead. The log must be known to be whole.
    ///
    /// # Errors
    /// [`crate::Error::TooMuch`] for a target with too much of it, unless `force`; the other targets are still swept.
    pub fn sweep(&self, force: bool) -> Result<u64> {
        let (mut freed, mut refused) = (0, None);
        for device in self.tiers.devices.iter().filter(|device| device.state() == TierState::Ok) {
            for swept in [self.sweep_drafts(device, force), self.sweep_frames(device, force)] {
                match swept {
                    Ok(bytes) => freed += bytes,
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
        }
        refused.map_or(Ok(freed), Err)
    }

    fn sweep_drafts(&self, device: &Device, force: bool) -> Result<u64> {
        let mut files = device.target.files().and_then(|files| files.numbers().ok()).unwrap_or_default();
        if files.is_empty() {
            return Ok(0);
        }
        let known: HashSet<u64> = self.catalog.segments(device.id)?.into_iter().map(|(id, _)| id).collect();
        files.retain(|file| !known.contains(file));
        let bytes = files.iter().map(|file| device.target.allocated(*file)).sum();
        self.allow_sweep(device, "plain files", files.len(), bytes, force)?;
        for file in files {
            // A file that cannot be removed is found again by the next sweep.
            let _ = device.target.discard(file);
        }
        Ok(bytes)
    }

    fn sweep_frames(&self, device: &Device, force: bool) -> Result<u64> {
        let dying = self.catalog.dead_places(device.id)?;
        let segments = self.catalog.segments(device.id)?;
        let bytes = segments.iter().map(|(_, live)| live.bytes).sum::<u64>() + dying.bytes();
        let is_little = |used: u64| used <= bytes + bytes / MIN_SWEPT_PART + MIN_SWEPT_BYTES;
        // A frame whose bytes the device refused would let each sync of its segment fail.
        let may_be_lost = || segments.iter().any(|(id, _)| device.target.sync_failed(*id));
        if !force && device.space().is_ok_and(|space| is_little(space.used)) && !may_be_lost() {
            return Ok(0);
        }
        let known = self.find_known(device, dying.iter().collect())?;
        let mut unnamed: Vec<Place> = Vec::new();
        let scanned = device.target.scan(&mut |place, _| {
            if !place.is_plain() {
                unnamed.extend(known.cut_off(place));
            }
        });
        let bytes = unnamed.iter().map(|place| u64::from(place.length)).sum();
        if scanned.is_ok() {
            self.allow_sweep(device, "frames", unnamed.len(), bytes, force)?;
        }
        match scanned.and_then(|()| device.target.free(&unnamed)) {
            Ok(()) => Ok(bytes),
            Err(e) => {
                device.failed(&e);
                Ok(0)
            }
        }
    }

    /// Returns the places on a target that the catalog knows: those of frames that objects name, and the dead ones, which a power cut
    /// may bring back.
    fn find_known(&self, device: &Device, dying: Vec<Place>) -> Result<KnownPlaces> {
        let mut known = dying;
        self.catalog.each_object(b"", |_, _, extents| {
            let replicas = extents.iter().flat_map(|extent| &extent.replicas);
            known.extend(replicas.filter(|replica| replica.target == device.id).map(|replica| replica.place));
            Ok::<_, Error>(true)
        })?;
        self.catalog.each_shared_frame(|_, frame| {
            let here = frame.replicas.iter().filter(|replica| replica.target == device.id);
            known.extend(here.map(|replica| replica.place));
        })?;
        known.sort_unstable();
        Ok(KnownPlaces(known))
    }

    fn allow_sweep(&self, device: &Device, kind: &str, count: usize, bytes: u64, force: bool) -> Result<()> {
        let what = format!("{kind} on {}", device.path.display());
        let of_bytes = device.space().map_or(0, |space| space.used);
        Discard { what: &what, why: "no commit names them, and their writers are gone", count, bytes, of_bytes }
            .allow(force)
    }
}

/// The places on a target that the catalog knows, in order.
struct KnownPlaces(Vec<Place>);

impl KnownPlaces {
    /// Returns the part of a frame's place before the first known one, if any is left. The header of an incomplete frame, whose writer
    /// died, claims more bytes than were written, and version 0.1 placed other frames there.
    fn cut_off(&self, place: Place) -> Option<Place> {
        let next = self.0.partition_point(|known| (known.segment, known.offset) <= (place.segment, place.offset));
        let is_within = |known: &&Place| known.segment == place.segment;
        let before = next.checked_sub(1).and_then(|at| self.0.get(at)).filter(is_within);
        if before.is_some_and(|before| before.end() > place.offset) {
            return None;
        }
        let end = self.0.get(next).filter(is_within).map_or(place.end(), |after| after.offset.min(place.end()));
        Some(Place { length: (end - place.offset) as u32, ..place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64, length: u32) -> Place {
        Place { segment: 3, offset, length }
    }

    #[test]
    fn no_known_place_is_swept() {
        let known = KnownPlaces(vec![place(0, 100), place(200, 100), place(400, 50)]);
        assert_eq!(known.cut_off(place(0, 100)), None, "it is known");
        assert_eq!(known.cut_off(place(96, 50)), None, "it begins in a known one");
        assert_eq!(known.cut_off(place(104, 50)), Some(place(104, 50)));
        assert_eq!(known.cut_off(place(104, 1000)), Some(place(104, 96)));
        assert_eq!(known.cut_off(place(304, 1000)), Some(place(304, 96)));
        assert_eq!(known.cut_off(place(456, 1000)), Some(place(456, 1000)));
        let elsewhere = Place { segment: 4, ..place(0, 100) };
        assert_eq!(known.cut_off(elsewhere), Some(elsewhere));
    }
}
