//! Frees frames and plain files that no commit names. Writers leave them when they are killed.

use std::collections::{BTreeSet, HashSet};
use std::io;

use terrace_tier::Place;

use super::Care;
use super::survey::describe_older_directory;
use crate::devices::Device;
use crate::discard::Discard;
use crate::home::TargetNote;
use crate::mover::Naming;
use crate::report::TierState;
use crate::{Error, Result};

/// The number of bytes beyond those that the catalog knows from which a target is searched for frames. A part of the known bytes is added.
const MIN_SWEPT_BYTES: u64 = 4 << 20;
/// This part of the known bytes is added: a sixteenth.
const MIN_SWEPT_PART: u64 = 16;

impl Care {
    /// Frees frames and plain files that no commit names, and returns their size in bytes. The caller guarantees that no other process
    /// has the store open, so that the writers of these frames are dead, and that the log is complete.
    ///
    /// # Errors
    /// Without `force`, [`crate::Error::TooMuch`] if a target has too many such bytes. [`crate::Error::LogDamaged`] if a target was used with
    /// a newer copy of the store's directory. The other targets are swept before the error is returned.
    pub fn sweep(&self, force: bool) -> Result<u64> {
        let (mut freed, mut refused) = (0, None);
        for device in self.tiers.devices.iter().filter(|device| device.state() == TierState::Ok) {
            let notes = [
                TargetNote::sweep_due(&self.journal.dir, device.id),
                TargetNote::is_newer(&self.journal.dir, device.id),
            ];
            let [is_due, is_newer] = notes.each_ref().map(TargetNote::holds);
            if is_newer {
                refused = refused.or(Some(describe_older_directory(&device.path)));
                continue;
            }
            let swept = [self.sweep_files(device, force), self.sweep_frames(device, force, is_due)];
            if swept.iter().all(|swept| matches!(swept, Ok(Some(_)))) {
                notes.iter().try_for_each(|note| note.set(false))?;
            }
            for swept in swept {
                match swept {
                    Ok(bytes) => freed += bytes.unwrap_or(0),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
        }
        refused.map_or(Ok(freed), Err)
    }

    /// Notes how to sweep a target that was compared with the catalog. If the target is an older copy of itself, it may hold many frames
    /// that were freed since, and must be searched. If it is newer than the catalog, it holds frames that the catalog does not know, and
    /// must not be swept.
    pub(super) fn note_sweep(&self, device: &Device) -> Result<()> {
        let last = self.catalog.tail()?.sequence;
        if last == 0 || self.catalog.is_shared() {
            return Ok(());
        }
        let dir = &self.journal.dir;
        match device.target.synced_to() {
            Ok(theirs) if theirs.is_none_or(|theirs| theirs.sequence <= last) => {
                TargetNote::sweep_due(dir, device.id).set(true)?;
                if device.capabilities.plain_files { TargetNote::names_due(dir, device.id).set(true) } else { Ok(()) }
            }
            // A target that does not answer may be newer, too.
            _ => TargetNote::is_newer(dir, device.id).set(true),
        }
    }

    /// Returns the numbers of the plain files on a target that no commit names. Returns none if the target fails.
    pub(super) fn find_unknown_files(&self, device: &Device) -> Result<Option<HashSet<u64>>> {
        let Some(files) = device.target.files() else { return Ok(Some(HashSet::new())) };
        let mut unknown = match files.numbers() {
            Ok(files) => files,
            Err(error) => {
                device.failed(&error);
                return Ok(None);
            }
        };
        if !unknown.is_empty() {
            let known: HashSet<u64> = self.catalog.segments(device.id)?.into_iter().map(|(id, _)| id).collect();
            unknown.retain(|file| !known.contains(file));
        }
        Ok(Some(unknown.into_iter().collect()))
    }

    /// Discards the plain files that no commit names, and returns their size in bytes. Returns none if the target fails.
    fn sweep_files(&self, device: &Device, force: bool) -> Result<Option<u64>> {
        let Some(unknown) = self.find_unknown_files(device)? else { return Ok(None) };
        if unknown.is_empty() {
            return Ok(Some(0));
        }
        let bytes = unknown.iter().map(|file| device.target.allocated(*file)).sum();
        self.allow_sweep(device, "plain files", unknown.len(), bytes, force)?;
        let Some(named) = self.unname(device, &unknown)? else { return Ok(None) };
        for file in unknown.difference(&named) {
            // A file that cannot be removed is found again by the next sweep.
            let _ = device.target.discard(*file);
        }
        Ok(Some(bytes))
    }

    /// Removes the names of these plain files. Some keep their name until the object at their key has a new file: returns these. They must
    /// not be discarded, because a name without a numbered file looks like a file of another program. Returns none if the target fails.
    fn unname(&self, device: &Device, unknown: &HashSet<u64>) -> Result<Option<HashSet<u64>>> {
        let Some(files) = device.target.files() else { return Ok(None) };
        // Each process that names a file reads the catalog and the target under this lock.
        let _lock = self.mover.names.wait_for_lock(device)?;
        let names = match files.names() {
            Ok(names) => names,
            Err(error) => {
                device.failed(&error);
                return Ok(None);
            }
        };
        let mut named = HashSet::new();
        for (key, file) in names.iter().filter(|(_, file)| unknown.contains(file)) {
            if !matches!(self.mover.names.update(device, key, &[*file])?, Naming::Settled) {
                named.insert(*file);
            }
        }
        Ok(Some(named))
    }

    /// Frees the frames that no commit names, and returns their size in bytes. Returns none if the target fails. The target is searched if
    /// `force` or `is_due` is true, or if it uses many more bytes than the catalog knows.
    fn sweep_frames(&self, device: &Device, force: bool, is_due: bool) -> Result<Option<u64>> {
        let dying = self.catalog.dead_places(device.id)?;
        let segments = self.catalog.segments(device.id)?;
        let bytes = segments.iter().map(|(_, live)| live.bytes).sum::<u64>() + dying.bytes();
        let is_little = |used: u64| used <= bytes + bytes / MIN_SWEPT_PART + MIN_SWEPT_BYTES;
        // If the device refused the bytes of a frame, each sync of its segment fails until the frame is gone.
        let may_be_lost = || segments.iter().any(|(id, _)| device.target.sync_failed(*id));
        let is_searched = force || is_due;
        if !is_searched && device.space().is_ok_and(|space| is_little(space.used)) && !may_be_lost() {
            return Ok(Some(0));
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
        let recorded = segments.iter().map(|(id, _)| *id).chain(known.0.iter().map(|place| place.segment)).collect();
        match scanned.and_then(|()| give_back(device, unnamed, &recorded)) {
            Ok(()) => Ok(Some(bytes)),
            Err(e) => {
                device.failed(&e);
                Ok(None)
            }
        }
    }

    /// Returns the places on a target that the catalog knows: those of frames that objects name, and the places in `dying`, which a power
    /// cut may bring back.
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

/// Frees frames, and discards those of their segments that are not `recorded` in the catalog.
fn give_back(device: &Device, mut places: Vec<Place>, recorded: &HashSet<u64>) -> io::Result<()> {
    device.target.free(&places)?;
    places.retain(|place| !recorded.contains(&place.segment));
    let segments: BTreeSet<u64> = places.iter().map(|place| place.segment).collect();
    // A segment that a writer has open stays.
    segments.into_iter().try_for_each(|segment| device.target.discard(segment).map(drop))
}

/// The places on a target that the catalog knows, sorted.
struct KnownPlaces(Vec<Place>);

impl KnownPlaces {
    /// Returns the part of a frame's place that no known place overlaps: it ends where the next known place begins. If a writer died, the
    /// header of its frame may claim more bytes than were written, and version 0.1 placed other frames there.
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
