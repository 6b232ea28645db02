//! The list of the blobs on an object target, in files of the store's directory.
//!
//! A service may be slow to list its blobs, or unable to. So each segment has a file here with the length of each of its blobs,
//! in order, and 0 for a freed one. A writer holds a lock on the file, as on a segment file of a directory target. Nothing here
//! is synced: after a reboot the ledger is rebuilt from a listing.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_system::{Locked, boot, read_regular};

use super::frame_blobs::{SLOT_BYTES, SLOTS_PER_SEGMENT};
use super::{Ids, Place, Used, segment};

/// Bytes of a length in a segment's file.
const ENTRY_BYTES: u64 = 4;
/// At most this many existing segments are tried before a new one is begun.
const MAX_CLAIM_TRIES: usize = 16;
/// The blobs are counted again if nobody has done so for this long.
const MAX_COUNT_AGE: Duration = Duration::from_secs(1);
/// The file that names the boot in which the ledger was built.
const BOOT_FILE: &str = "boot";

/// A listing of the service: for each segment, the lengths of its blobs by number.
pub type Listing = BTreeMap<u64, Vec<u32>>;

/// The segments of one object target.
pub struct Ledger {
    folder: PathBuf,
    target: u16,
    ids: Arc<dyn Ids>,
    /// The segment that this process adds blobs to. Held while a number is given out, and while the next segment is claimed, so
    /// that no number is given out twice. Taken before `full`.
    writing: Mutex<Option<Writing>>,
    /// Full segments of this process. They keep their file locks, because a blob in them may not be committed yet: without the
    /// lock, another process would take the segment for garbage.
    full: Mutex<Vec<Locked>>,
    used: Used,
}

/// The segment that this process adds blobs to.
struct Writing {
    segment: u64,
    next: u64,
    file: Locked,
}

/// The number of the blob at this place in its segment.
pub fn slot(place: Place) -> Option<u64> {
    (place.offset.is_multiple_of(SLOT_BYTES) && place.offset < SLOTS_PER_SEGMENT * SLOT_BYTES)
        .then_some(place.offset / SLOT_BYTES)
}

impl Ledger {
    /// Opens the ledger of a target in `folder`. Creates the folder if it is missing.
    pub fn open(folder: &Path, target: u16, ids: Arc<dyn Ids>) -> io::Result<Ledger> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Ok(Ledger {
            folder: folder.to_owned(),
            target,
            ids,
            writing: Mutex::default(),
            full: Mutex::default(),
            used: Used::open(&folder.join("used")),
        })
    }

    /// Locks the ledger until the result is dropped. Meanwhile no other process rebuilds it, or uses it half-built.
    pub fn lock(&self) -> io::Result<Locked> {
        let path = self.folder.join("lock");
        Locked::wait(OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?)
    }

    /// Returns whether the ledger was built in this boot, so that no power cut has damaged it.
    pub fn is_current(&self) -> bool {
        let made = fs::read_to_string(self.folder.join(BOOT_FILE)).unwrap_or_default();
        !made.is_empty() && boot::read_id().is_ok_and(|boot| made.trim() == boot)
    }

    /// Rebuilds the ledger from a listing. If the service cannot list, the ledger keeps its content, but all of its segments
    /// count as full: numbers that were given out just before a power cut may be missing.
    pub fn renew(&self, found: Option<&Listing>) -> io::Result<()> {
        let mut ids = self.segments()?;
        ids.extend(found.into_iter().flat_map(|listing| listing.keys()));
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let path = self.path(id);
            let file =
                OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
            let idle = segment::hold(&path)?.is_some();
            if let Some(listing) = found {
                let lengths = listing.get(&id);
                if lengths.is_none() && idle {
                    fs::remove_file(&path)?;
                    continue;
                }
                let mut bytes: Vec<u8> = lengths.into_iter().flatten().flat_map(|l| l.to_le_bytes()).collect();
                bytes.resize(bytes.len().max(file.metadata()?.len() as usize), 0);
                file.write_all_at(&bytes, 0)?;
            }
            if idle {
                file.set_len(SLOTS_PER_SEGMENT * ENTRY_BYTES)?;
            }
        }
        self.used.make_stale();
        // Without an id, the ledger is made again at each opening.
        fs::write(self.folder.join(BOOT_FILE), boot::read_id().unwrap_or_default())
    }

    /// Gives out the place for a blob of this length. No place is given out twice.
    ///
    /// # Errors
    /// `StorageFull` if all blobs together would take more than `capacity`.
    pub fn take(&self, length: u32, capacity: u64) -> io::Result<Place> {
        let _room = self.used.take(length.into(), capacity, || self.count())?;
        self.take_place(length).inspect_err(|_| self.used.make_stale())
    }

    fn take_place(&self, length: u32) -> io::Result<Place> {
        let mut writing = self.writing.lock();
        if writing.as_ref().is_none_or(|w| w.next >= SLOTS_PER_SEGMENT)
            && let Some(full) = writing.replace(self.claim()?)
        {
            self.full.lock().push(full.file);
        }
        let Some(at) = writing.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let place = Place { segment: at.segment, offset: at.next * SLOT_BYTES, length };
        at.file.write_all_at(&length.to_le_bytes(), at.next * ENTRY_BYTES)?;
        at.next += 1;
        Ok(place)
    }

    /// Notes that the blobs at these places are gone. Places of one segment should be adjacent in `places`.
    pub fn clear(&self, places: &[Place]) -> io::Result<()> {
        for group in places.chunk_by(|a, b| a.segment == b.segment) {
            let Some(first) = group.first() else { continue };
            let file = match OpenOptions::new().write(true).open(self.path(first.segment)) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let end = file.metadata()?.len();
            for at in
                group.iter().filter_map(|place| slot(*place)).map(|slot| slot * ENTRY_BYTES).filter(|at| *at < end)
            {
                file.write_all_at(&[0; ENTRY_BYTES as usize], at)?;
            }
        }
        self.used.make_stale();
        Ok(())
    }

    /// The bytes of all blobs.
    pub fn used(&self) -> io::Result<u64> {
        self.used.get(MAX_COUNT_AGE, || self.count())
    }

    /// Like [`Ledger::used`], but from the counter only.
    pub fn counted(&self) -> u64 {
        self.used.counted()
    }

    fn count(&self) -> io::Result<u64> {
        let mut used = 0;
        for id in self.segments()? {
            used += self.lengths(id)?.into_iter().map(u64::from).sum::<u64>();
        }
        Ok(used)
    }

    /// Makes the next [`Ledger::used`] count again.
    pub fn count_again(&self) {
        self.used.make_stale();
    }

    /// The places of a segment's blobs. With `freed`, all places that were ever given out there.
    pub fn places(&self, segment: u64, freed: bool) -> io::Result<Vec<Place>> {
        let lengths = self.lengths(segment)?;
        let place = |(slot, length)| Place { segment, offset: slot * SLOT_BYTES, length };
        Ok((0..).zip(lengths).filter(|(_, length)| freed || *length > 0).map(place).collect())
    }

    /// Every segment that may have blobs.
    pub fn segments(&self) -> io::Result<Vec<u64>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let hex = name.to_str().filter(|name| name.len() == 16);
            ids.extend(hex.and_then(|name| u64::from_str_radix(name, 16).ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Locks a segment against writers until the result is dropped. `None` if a writer holds it.
    pub fn hold(&self, segment: u64) -> io::Result<Option<Held>> {
        let path = self.path(segment);
        match segment::hold(&path) {
            Ok(file) => Ok(file.map(|file| Held { _file: Some(file), path })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Some(Held { _file: None, path })),
            Err(e) => Err(e),
        }
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.folder.join(format!("{segment:016x}"))
    }

    fn lengths(&self, segment: u64) -> io::Result<Vec<u32>> {
        let bytes = match read_regular(&self.path(segment)) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e),
        };
        let (entries, _) = bytes.as_chunks::<{ ENTRY_BYTES as usize }>();
        Ok(entries.iter().map(|entry| u32::from_le_bytes(*entry)).collect())
    }

    /// Gets a segment to add blobs to: one of a dead writer, or a new one.
    fn claim(&self) -> io::Result<Writing> {
        let oldest = self.ids.oldest();
        let segments = self.segments()?.into_iter().rev().take_while(|segment| *segment >= oldest);
        for segment in segments.take(MAX_CLAIM_TRIES) {
            let path = self.path(segment);
            if fs::metadata(&path).is_ok_and(|m| m.len() < SLOTS_PER_SEGMENT * ENTRY_BYTES)
                && let Ok(Some(file)) = segment::hold(&path)
            {
                let metadata = file.metadata()?;
                // Measured again under the lock: the segment may have been removed or extended before it was locked.
                let next = metadata.len().div_ceil(ENTRY_BYTES);
                // A file that was cut does not tell which numbers were given out: the catalog may name later ones.
                let is_whole = self.ids.named_end(self.target, segment).is_ok_and(|end| end <= next * SLOT_BYTES);
                if metadata.nlink() > 0 && next < SLOTS_PER_SEGMENT && is_whole {
                    return Ok(Writing { segment, next, file });
                }
            }
        }
        let segment = self.ids.next()?;
        let path = self.path(segment);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        match segment::hold_new(file)? {
            Some(file) => Ok(Writing { segment, next: 0, file }),
            // Another process has claimed the new file before this one locked it.
            None => self.claim(),
        }
    }
}

/// A segment that is locked against writers.
pub struct Held {
    _file: Option<Locked>,
    path: PathBuf,
}

impl Held {
    /// Removes the segment from the ledger.
    pub fn forget(self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Counter(AtomicU64);

    impl Ids for Counter {
        fn next(&self) -> io::Result<u64> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    fn ledger(folder: &Path, from: u64) -> Ledger {
        let ledger = Ledger::open(folder, 1, Arc::new(Counter(AtomicU64::new(from)))).expect("a ledger");
        if !ledger.is_current() {
            ledger.renew(None).expect("renews");
        }
        ledger
    }

    #[test]
    fn places_go_on_where_a_dead_writer_stopped_and_stay_apart_from_a_living_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = ledger(folder.path(), 1);
        assert_eq!(first.take(10, u64::MAX).expect("a place"), Place { segment: 1, offset: 0, length: 10 });
        let second = ledger(folder.path(), 50);
        assert_eq!(second.take(10, u64::MAX).expect("a place").segment, 50);
        drop(first);
        let third = ledger(folder.path(), 60);
        assert_eq!(third.take(7, u64::MAX).expect("a place"), Place { segment: 1, offset: SLOT_BYTES, length: 7 });
        assert_eq!(third.used().expect("counts"), 27);
        let places = third.places(1, false).expect("reads");
        second.clear(&places[..1]).expect("clears");
        second.clear(&places[..1]).expect("clears once more");
        third.count_again();
        assert_eq!(third.used().expect("counts"), 17);
        assert_eq!(third.places(1, false).expect("reads"), places[1..]);
        assert!(third.hold(50).expect("looks").is_none(), "its writer lives");
    }

    #[test]
    fn a_full_segment_is_followed_by_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = ledger(folder.path(), 1);
        let places: std::collections::BTreeSet<Place> =
            (0..SLOTS_PER_SEGMENT + 5).map(|_| ledger.take(1, u64::MAX).expect("a place")).collect();
        assert_eq!(places.len() as u64, SLOTS_PER_SEGMENT + 5);
        assert_eq!(ledger.segments().expect("reads"), [1, 2]);
        assert!(ledger.hold(1).expect("looks").is_none(), "its blobs may not have been committed");
    }

    /// Numbers that were given out just before a power cut are not in the files. Adding to such a segment would overwrite a blob.
    #[test]
    fn after_a_reboot_no_segment_is_added_to_and_a_listing_is_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = ledger(folder.path(), 1);
        first.take(10, u64::MAX).expect("a place");
        drop(first);
        for listing in
            [None, Some(Listing::from([(1, vec![0, 30]), (2, vec![5])])), Some(Listing::from([(2, vec![5])]))]
        {
            fs::write(folder.path().join(BOOT_FILE), "another boot").expect("writes");
            let again = Ledger::open(folder.path(), 1, Arc::new(Counter(AtomicU64::new(90)))).expect("a ledger");
            assert!(!again.is_current());
            again.renew(listing.as_ref()).expect("renews");
            assert!(again.is_current());
            let lengths = |l: &Listing| l.values().flatten().map(|length| u64::from(*length)).sum::<u64>();
            assert_eq!(again.used().expect("counts"), listing.as_ref().map_or(10, lengths));
            let place = again.take(1, u64::MAX).expect("a place");
            assert!(place.segment >= 90, "{place:?}");
            let held = again.hold(place.segment).expect("looks");
            assert!(held.is_none());
            drop(again);
            fs::remove_file(folder.path().join(format!("{:016x}", place.segment))).expect("removes");
        }
    }
}
