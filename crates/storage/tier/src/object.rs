//! A target on a service that OpenDAL supports, with one blob for each frame.
//!
//! Acknowledged writes count as durable. Whether they are depends on the service: S3 and similar services are, and Redis is as
//! far as it is configured to be.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use futures::{StreamExt as _, TryStreamExt as _};
use opendal::ErrorKind;
use rustix_futex_sync::Mutex;
use terrace_format::Reach;
use terrace_format::frame::{Frame, Header, MAX_HEADER};

use super::frame_blobs::{SEGMENTS_PREFIX, SLOT_BYTES, parse};
use super::ledger::{self, Ledger, Listing};
use super::named_blobs::{CONFIG_BLOB, LOG_PREFIX, SYNCED_BLOB};
use super::owner_mark::{OwnerMark, TARGET_OWNER_FILE};
use super::service::{
    Client, DELETED_TOGETHER, MARKER_BLOB, Service, delete_below, delete_names, fetch, fetch_range, list_names,
    modified, run, write_new,
};
use super::synced::SyncedNote;
use super::{EmptiedNote, Ids, NamedBlobs, Place, Space, Target, TargetFound, TargetOwner};

/// The most headers that a scan reads at the same time.
const MAX_PARALLEL_REQUESTS: usize = 16;

fn name(segment: u64, slot: u64) -> String {
    format!("{SEGMENTS_PREFIX}{segment:016x}/{slot:03x}")
}

/// A target with frames as blobs of a service.
pub struct ObjectTarget {
    service: Service,
    operator: Client,
    mark: String,
    /// The file that says that the target was made. With it, a target without its marker is away. None for a target that may be
    /// emptied at any time.
    made: Option<PathBuf>,
    store: u64,
    capacity: u64,
    ledger: Ledger,
    ids: Arc<dyn Ids>,
    /// Held during the whole check of the marker, with its requests, so that threads which find the target unknown wait for one
    /// check. The ledger's file lock is taken under it.
    checked: Mutex<Checked>,
    emptied: EmptiedNote,
    synced: SyncedNote,
    /// The store's directory.
    home: PathBuf,
}

/// The result of the last check of the marker.
#[derive(Default)]
struct Checked {
    /// Whether the marker was seen, and nothing has since hinted that it is gone.
    known: bool,
    /// When a check last failed, and how.
    failure: Option<(Instant, io::ErrorKind, String)>,
}

impl ObjectTarget {
    /// Makes the target of a store on a service, without contacting the service yet. The file `made` says that it was made.
    /// Without such a file, the target is made again whenever its marker is missing.
    ///
    /// # Errors
    /// If the service is unknown, or its options are invalid.
    pub fn new(
        service: Service,
        owner: &TargetOwner,
        capacity: u64,
        made: Option<PathBuf>,
    ) -> io::Result<ObjectTarget> {
        let folder = owner.dir.join(format!("object-{}", owner.number));
        Ok(ObjectTarget {
            operator: service.connect()?,
            service,
            mark: owner.mark(),
            made,
            store: owner.store,
            capacity,
            ledger: Ledger::open(&folder, owner.number, owner.ids.clone())?,
            ids: owner.ids.clone(),
            checked: Mutex::default(),
            emptied: EmptiedNote::new(folder.join("emptied")),
            synced: SyncedNote::new(folder.join("synced")),
            home: owner.dir.clone(),
        })
    }

    /// Reads the marker. `None` if it is missing or was not written to its end.
    fn marker(&self) -> io::Result<Option<Vec<u8>>> {
        match fetch(&self.operator, MARKER_BLOB.into()) {
            Ok(mark) if mark.len() < self.mark.len() && self.mark.as_bytes().starts_with(&mark) => Ok(None),
            Ok(mark) => Ok(Some(mark)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads the note of how far the target was synced.
    fn note(&self) -> io::Result<Option<Reach>> {
        match fetch(&self.operator, SYNCED_BLOB.into()) {
            Ok(text) => Ok(SyncedNote::parse(&text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes the note of how far the target was synced. The caller holds the ledger's lock.
    fn write_note(&self, reach: Reach) -> io::Result<()> {
        // What is known of the target comes last: if it is later than the target's own note, the target is an older copy.
        self.write(SYNCED_BLOB.into(), SyncedNote::text(reach).into_bytes())?;
        self.synced.write(reach)
    }

    /// Returns why the target and the catalog may not belong together: one of them was restored from an older copy, such as a backup.
    fn mismatch(&self) -> io::Result<Option<&'static str>> {
        let (known, theirs) = (self.synced.known(), self.note()?);
        let is_older = known.is_some_and(|known| theirs.is_none_or(|theirs| theirs.sequence < known.sequence));
        Ok(match theirs {
            _ if is_older => Some("this target is an older copy of itself, such as a restored backup"),
            Some(theirs) if theirs.sequence > self.ids.last_commit() => {
                Some("the store's directory is an older copy of itself, and this target was used with a newer one")
            }
            // The log need not be read for what this directory has noted itself.
            Some(theirs) if Some(theirs) != known && !self.ids.continues(theirs.record) => {
                Some("this target was used with another copy of the store's directory")
            }
            _ => None,
        })
    }

    /// Lists the blobs into the ledger, if the service can.
    fn list_again(&self) -> io::Result<()> {
        let listing = if self.lists() { Some(self.list()?) } else { None };
        self.ledger.renew(listing.as_ref())
    }

    fn was_made(&self) -> bool {
        self.made.as_ref().is_some_and(|made| made.exists())
    }

    /// The error for a target whose marker is missing. An empty bucket in its place is not the target: otherwise the store would
    /// forget every replica on it.
    fn missing(&self, reason: &str) -> io::Error {
        let reason = format!(
            "{} is not the target that it was ({reason}): are its path and options right? If it is gone for good, `terrace tiers renew` makes an empty one",
            self.service
        );
        io::Error::new(io::ErrorKind::NotConnected, reason)
    }

    /// Handles a blob that was not found: returns the same error if the target is there, or else that the whole target is away.
    fn check_not_away(&self, error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::NotFound {
            return error;
        }
        self.checked.lock().known = false;
        match self.ready() {
            Err(gone) => gone,
            Ok(()) => error,
        }
    }

    /// Checks the marker, and makes the target if it may be made.
    fn check(&self) -> io::Result<()> {
        let _lock = self.ledger.lock()?;
        let marker = self.marker().map_err(|e| match e.kind() {
            // S3 reports a missing bucket as a wrong configuration. But the target was made with this configuration.
            io::ErrorKind::InvalidInput if self.was_made() => self.missing(&e.to_string()),
            _ => e,
        })?;
        match marker {
            Some(mark) if mark == self.mark.as_bytes() => {
                self.check_owner()?;
                let mismatch = if self.emptied.exists() { None } else { self.mismatch()? };
                if let Some(mismatch) = mismatch {
                    tracing::warn!(
                        target = %self.service,
                        "{mismatch}; what the target lacks will be made again from other replicas"
                    );
                    self.emptied.write()?;
                    self.list_again()?;
                } else if !self.ledger.is_current() {
                    self.list_again()?;
                }
            }
            Some(mark) => return Err(self.service.refuse(&mark)),
            None if self.was_made() => return Err(self.missing(&format!("it has no blob {MARKER_BLOB}"))),
            None => {
                self.emptied.write()?;
                self.synced.remove()?;
                self.write(MARKER_BLOB.into(), self.mark.clone().into_bytes())?;
                // Another store may have written its marker at the same time, so it is read back.
                let mark = self.marker()?.unwrap_or_default();
                if mark != self.mark.as_bytes() {
                    return Err(self.service.refuse(&mark));
                }
                self.check_owner()?;
                // Blobs from before do not count.
                self.ledger.renew(Some(&Listing::new()))?;
            }
        }
        if let Some(made) = self.made.as_ref().filter(|made| !made.exists()) {
            // After the marker: a crash between the two leaves a target that is found by its marker. In the other order it would
            // leave a target that counts as away.
            File::create(made)?.sync_all()?;
        }
        Ok(())
    }

    /// Reads the mark of the directory that uses the target.
    fn owner(&self) -> io::Result<Option<OwnerMark>> {
        match fetch(&self.operator, TARGET_OWNER_FILE.into()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            found => Ok(Some(OwnerMark::read(&found?))),
        }
    }

    /// Checks that the store's directory is the one that uses the target. Takes a target that no directory uses, or one of a directory that it has
    /// replaced.
    fn check_owner(&self) -> io::Result<()> {
        let Some(own) = OwnerMark::of_home(&self.home)?.filter(|_| self.made.is_some()) else { return Ok(()) };
        let found = self.owner()?;
        match &found {
            Some(found) if *found == own => return Ok(()),
            Some(found) if own.may_replace(found) => self.write(TARGET_OWNER_FILE.into(), own.bytes())?,
            Some(found) => return Err(found.refuse(&self.service, "the blob terrace-owner there")),
            None => match write_new(&self.operator, TARGET_OWNER_FILE.into(), own.bytes()) {
                // A store that may not write there reads on, and changes nothing.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
                taken => drop(taken?),
            },
        }
        // Another directory may have been quicker.
        match self.owner()? {
            Some(found) if found != own => Err(found.refuse(&self.service, "the blob terrace-owner there")),
            _ => Ok(()),
        }
    }

    fn lists(&self) -> bool {
        self.operator.info().capability().list
    }

    fn write(&self, path: String, bytes: Vec<u8>) -> io::Result<()> {
        let (operator, bytes) = (self.operator.clone(), opendal::Buffer::from(bytes));
        let write = || {
            let (operator, path, bytes) = (operator.clone(), path.clone(), bytes.clone());
            run(async move { operator.write(&path, bytes).await.map(drop) })
        };
        let missing = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
        // Services with real folders: the blob's folder may have been discarded at the same time, so the write is repeated once.
        match write().or_else(|e| if missing(&e) { write() } else { Err(e) }) {
            // The bucket is missing, not a frame, so this must not be `NotFound`.
            Err(e) if missing(&e) => Err(io::Error::new(io::ErrorKind::NotConnected, e)),
            written => written,
        }
    }

    /// All blobs of frames, with their lengths.
    fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::new();
        for place in self.list_below(SEGMENTS_PREFIX.into())? {
            let slots = listing.entry(place.segment).or_default();
            let slot = (place.offset / SLOT_BYTES) as usize;
            slots.resize(slots.len().max(slot + 1), 0);
            if let Some(length) = slots.get_mut(slot) {
                *length = place.length;
            }
        }
        Ok(listing)
    }

    fn list_below(&self, folder: String) -> io::Result<Vec<Place>> {
        let operator = self.operator.clone();
        let listed = run(async move {
            let mut places = Vec::new();
            let mut entries = operator.lister_with(&folder).recursive(true).await?;
            while let Some(entry) = entries.try_next().await? {
                let Some((segment, slot)) = parse(entry.path()) else { continue };
                let length = match entry.metadata().content_length() {
                    // Some services list names without lengths.
                    0 => match operator.stat(entry.path()).await {
                        Ok(metadata) => metadata.content_length(),
                        Err(e) if e.kind() == ErrorKind::NotFound => continue,
                        Err(e) => return Err(e),
                    },
                    length => length,
                };
                places.push(Place { segment, offset: slot * SLOT_BYTES, length: length.min(SLOT_BYTES) as u32 });
            }
            places.sort_unstable();
            Ok(places)
        });
        match listed {
            // Nothing was ever written.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed,
        }
    }

    fn delete(&self, names: Vec<String>) -> io::Result<()> {
        delete_names(&self.operator, names)
    }

    /// Finds the owner of the target's place.
    pub fn find(&self) -> io::Result<TargetFound> {
        let marker = self.marker()?;
        if marker.as_deref() == Some(self.mark.as_bytes())
            && let (Some(own), Some(found)) = (OwnerMark::of_home(&self.home)?, self.owner()?)
            && own != found
            && !own.may_replace(&found)
        {
            return Err(found.refuse(&self.service, "the blob terrace-owner there"));
        }
        Ok(match marker {
            Some(mark) if mark == self.mark.as_bytes() => TargetFound::Own { used: self.ledger.used().unwrap_or(0) },
            Some(mark) => TargetFound::Another(String::from_utf8_lossy(&mark).into_owned()),
            None => TargetFound::Nothing,
        })
    }

    /// Removes all blobs of frames, then calls `before_mark`, then removes the marker. Other blobs stay. An interrupted removal
    /// can be repeated.
    pub fn remove_all(&self, before_mark: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let segments = self.ledger.segments()?;
        let mut places = Vec::new();
        if self.lists() {
            places = self.list_below(SEGMENTS_PREFIX.into())?;
        } else {
            for segment in &segments {
                places.extend(self.ledger.places(*segment, true)?);
            }
        }
        for some in places.chunks(DELETED_TOGETHER) {
            self.delete(some.iter().map(|place| name(place.segment, place.offset / SLOT_BYTES)).collect())?;
        }
        let mut folders: Vec<u64> = places.iter().map(|place| place.segment).chain(segments).collect();
        folders.sort_unstable();
        folders.dedup();
        for segment in folders {
            self.delete_folder(segment)?;
        }
        if self.operator.info().capability().create_dir {
            self.delete(vec![SEGMENTS_PREFIX.to_owned()])?;
        }
        if self.lists() {
            delete_below(&self.operator, LOG_PREFIX.into())?;
        }
        before_mark()?;
        self.delete([CONFIG_BLOB, SYNCED_BLOB, TARGET_OWNER_FILE, MARKER_BLOB].map(str::to_owned).to_vec())
    }

    /// Deletes the folder of an empty segment, if the service has real folders.
    fn delete_folder(&self, segment: u64) -> io::Result<()> {
        if self.operator.info().capability().create_dir {
            self.delete(vec![format!("{SEGMENTS_PREFIX}{segment:016x}/")])?;
        }
        Ok(())
    }
}

impl Target for ObjectTarget {
    fn ready(&self) -> io::Result<()> {
        let asked = Instant::now();
        let mut checked = self.checked.lock();
        if checked.known {
            return Ok(());
        }
        // Threads that waited for a check share its failure. Otherwise each would ask a dead service in turn, and a thread could wait
        // forever while others ask again and again.
        if let Some((_, kind, reason)) = checked.failure.as_ref().filter(|(at, ..)| *at >= asked) {
            return Err(io::Error::new(*kind, reason.clone()));
        }
        let found = self.check();
        checked.known = found.is_ok();
        checked.failure = found.as_ref().err().map(|e| (Instant::now(), e.kind(), e.to_string()));
        found
    }

    fn check_again(&self) -> io::Result<()> {
        self.checked.lock().known = false;
        self.ready()
    }

    fn note_synced(&self, reach: Reach) -> io::Result<()> {
        self.ready()?;
        // Another process may have noted a later commit meanwhile. Without the lock, its note here and this one there could stay: a target
        // that looks like an older copy.
        let _lock = self.ledger.lock()?;
        if self.synced.known().is_some_and(|known| known.sequence >= reach.sequence) {
            return Ok(());
        }
        self.write_note(reach)
    }

    fn synced_to(&self) -> io::Result<Option<Reach>> {
        self.ready()?;
        self.note()
    }

    fn note_new(&self) -> io::Result<()> {
        self.emptied.write()
    }

    fn is_new(&self) -> bool {
        self.emptied.exists()
    }

    fn forget_new(&self) -> io::Result<()> {
        // From now on it is as it should be, whatever its note says. Before the other note is removed: otherwise the next look would find
        // the same again.
        let last = self.ids.last_commit();
        let (known, _lock) = (self.synced.known(), self.ledger.lock()?);
        if known.is_some() || self.note()?.is_some_and(|theirs| theirs.sequence > last) {
            // Of a record that the log has not, nothing is said.
            let record = known.map(|known| known.record).filter(|record| self.ids.continues(*record));
            let sequence = known.map_or(last, |known| known.sequence.min(last));
            self.write_note(Reach { sequence, record: record.unwrap_or_default() })?;
        }
        self.emptied.remove()
    }

    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        self.ready()?;
        let length = frame.header.frame_len();
        let place = self.ledger.take(length as u32, self.capacity).map_err(|e| match e.kind() {
            io::ErrorKind::StorageFull => io::Error::new(e.kind(), format!("{} is full", self.service)),
            _ => e,
        })?;
        let mut blob = Vec::with_capacity(length as usize);
        frame.header.write(self.store, place, &mut blob);
        blob.extend_from_slice(frame.payload);
        // If the write fails, its slot stays unused. A write that timed out may still arrive: the blob is then removed with its
        // segment. The error of `clear` is ignored, because the ledger then only counts some bytes too many until it is rebuilt.
        self.write(name(place.segment, place.offset / SLOT_BYTES), blob).inspect_err(|_| {
            let _ = self.ledger.clear(&[place]);
        })?;
        Ok(place)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        self.ready()?;
        let slot = ledger::slot(place).ok_or(io::ErrorKind::NotFound)?;
        let start = u64::from(skip);
        let range = start..start + out.len() as u64;
        let (operator, path) = (self.operator.clone(), name(place.segment, slot));
        let bytes =
            run(async move { fetch_range(&operator, &path, range).await }).map_err(|e| self.check_not_away(e))?;
        out.copy_from_slice(&bytes);
        Ok(())
    }

    /// Does nothing: an acknowledged blob is as durable as the service makes it.
    fn sync(&self, _segments: &[u64]) -> io::Result<()> {
        Ok(())
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        self.ready()?;
        let mut places: Vec<Place> = places.to_vec();
        places.sort_unstable();
        let slots = places.iter().filter_map(|place| Some((place.segment, ledger::slot(*place)?)));
        let names: Vec<String> = slots.map(|(segment, slot)| name(segment, slot)).collect();
        if names.is_empty() {
            return Ok(());
        }
        // Asked again for each deletion: another directory of the store may need the blobs.
        self.check_owner()?;
        self.delete(names)?;
        self.ledger.clear(&places)
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        let Some(held) = self.ledger.hold(segment)? else { return Ok(false) };
        self.ready()?;
        self.check_owner()?;
        let left = if self.lists() {
            self.list_below(format!("{SEGMENTS_PREFIX}{segment:016x}/"))?
        } else {
            self.ledger.places(segment, true)?
        };
        if !left.is_empty() {
            self.delete(left.iter().map(|place| name(segment, place.offset / SLOT_BYTES)).collect())?;
        }
        self.delete_folder(segment)?;
        held.forget()?;
        self.ledger.count_again();
        Ok(true)
    }

    fn space(&self) -> io::Result<Space> {
        self.ready()?;
        Ok(Space::within(self.ledger.used()?, self.capacity))
    }

    fn used(&self) -> u64 {
        self.ledger.counted()
    }

    fn named_blobs(&self) -> Option<&dyn NamedBlobs> {
        (self.made.is_some() && self.lists()).then_some(self as &dyn NamedBlobs)
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        self.ready()?;
        let places = if self.lists() {
            self.list_below(SEGMENTS_PREFIX.into())?
        } else {
            let mut places = Vec::new();
            for segment in self.ledger.segments()? {
                places.extend(self.ledger.places(segment, false)?);
            }
            places
        };
        // An empty blob is no frame, and some services refuse reads of no bytes.
        let places: Vec<Place> = places.into_iter().filter(|place| place.length > 0).collect();
        for some in places.chunks(MAX_PARALLEL_REQUESTS) {
            let operator = self.operator.clone();
            let some = some.to_vec();
            let heads = run(async move {
                let head = |place: Place| {
                    let operator = operator.clone();
                    async move {
                        let end = u64::from(place.length).min(MAX_HEADER as u64);
                        let path = name(place.segment, place.offset / SLOT_BYTES);
                        match fetch_range(&operator, &path, 0..end).await {
                            Ok(bytes) => Ok(Some((place, bytes))),
                            // The blob was freed since the listing, or is shorter than the ledger says. Neither is a frame.
                            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::RangeNotSatisfied) => {
                                Ok(None)
                            }
                            Err(e) => Err(e),
                        }
                    }
                };
                futures::stream::iter(some.into_iter().map(head))
                    .buffered(MAX_PARALLEL_REQUESTS)
                    .try_collect::<Vec<_>>()
                    .await
            })?;
            for (place, head) in heads.into_iter().flatten() {
                if let Ok(header) = Header::read(&head, self.store, place) {
                    found(Place { length: header.frame_len() as u32, ..place }, header);
                }
            }
        }
        Ok(())
    }
}

/// The blobs beside the frames. Before each change, the target's owner is asked for again: another directory of the store may have taken it.
impl NamedBlobs for ObjectTarget {
    fn write_new(&self, name: &str, bytes: Vec<u8>) -> io::Result<bool> {
        self.check_owner()?;
        write_new(&self.operator, name.to_owned(), bytes)
    }

    fn replace(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.check_owner()?;
        self.write(name.to_owned(), bytes)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fetch(&self.operator, name.to_owned()).map_err(|e| self.check_not_away(e))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        list_names(&self.operator, folder.to_owned())
    }

    fn delete_below(&self, folder: &str) -> io::Result<()> {
        self.check_owner()?;
        delete_below(&self.operator, folder.to_owned())
    }

    fn modified(&self, name: &str) -> io::Result<Option<SystemTime>> {
        modified(&self.operator, name.to_owned())
    }
}
