//! A directory of segment files, on any file system. On tmpfs it is the RAM tier.

mod marker;
mod scan;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace_format::frame::{Frame, Header};
use terrace_system::{failed_sync, open_regular};

pub use marker::{MARKER_FILE, Making, read_marker};

use super::home_lock::HomeLock;
use super::plain::Plain;
use super::segment::{self, Segment};
use super::used::Taken;
use super::{
    Adoption, EmptiedNote, FRAME_ALIGNMENT, FileStore, Ids, PLAIN_SEGMENT_BIT, Place, Space, Target, TargetOwner, Used,
    Whole,
};

/// The folder of segments.
pub(super) const SEGMENTS_FOLDER: &str = "segments";
/// A segment of this length takes no more frames.
const FULL_SEGMENT_BYTES: u64 = 256 << 20;
/// The files are measured again if nobody has done so for this long. Meanwhile their bytes are counted.
const MAX_MEASUREMENT_AGE: Duration = Duration::from_secs(60);
/// The most files kept open for reading.
const MAX_OPEN_FILES: usize = 256;

/// A directory target.
pub struct DirectoryTarget {
    root: PathBuf,
    /// The content of the marker.
    mark: String,
    making: Making,
    /// Whether the marker was ever seen. Set once, and never cleared.
    was_seen: AtomicBool,
    /// Whether the marker was seen, and nothing has since hinted that it is gone. A stale `true` does no harm: a file that is
    /// then not found makes `retry_if_away` check again.
    known: AtomicBool,
    emptied: EmptiedNote,
    home: HomeLock,
    store: u64,
    number: u16,
    capacity: u64,
    ids: Arc<dyn Ids>,
    /// Segments of this process that no thread writes to at the moment. A thread takes a segment out while it writes, so no
    /// two threads append to one. Like the next two locks it is a leaf, held for one push, pop or lookup, never during I/O.
    idle: Mutex<Vec<Segment>>,
    /// Full segments. They keep their file locks, because a frame in them may not be committed yet: without the lock, another
    /// process would take the segment for garbage.
    full: Mutex<Vec<Segment>>,
    readers: Mutex<HashMap<u64, Arc<File>>>,
    used: Used,
    /// Held while frames are freed: the blocks of a segment are counted before and after, and two threads that do this at the same time
    /// would both count the blocks that the other one frees. The target would take more than its capacity.
    freeing: Mutex<()>,
    headers: header_buffers::Pool,
    plain: Plain,
}

/// A pool of buffers for headers, which the threads share.
mod header_buffers {
    use rustix_futex_sync::Mutex;

    #[derive(Default)]
    pub struct Pool(Mutex<Vec<Vec<u8>>>);

    impl Pool {
        pub fn take(&self) -> Vec<u8> {
            self.0.lock().pop().unwrap_or_default()
        }
        pub fn give(&self, mut buffer: Vec<u8>) {
            buffer.clear();
            self.0.lock().push(buffer);
        }
    }
}

impl DirectoryTarget {
    /// Makes the target of this owner at `root`, without any I/O on it yet.
    pub fn new(root: &Path, owner: &TargetOwner, capacity: u64, making: Making) -> DirectoryTarget {
        DirectoryTarget {
            root: root.to_owned(),
            mark: owner.mark(),
            making,
            was_seen: AtomicBool::new(false),
            known: AtomicBool::new(false),
            emptied: owner.emptied(),
            home: HomeLock::new(&owner.dir),
            store: owner.store,
            number: owner.number,
            capacity,
            ids: owner.ids.clone(),
            idle: Mutex::default(),
            full: Mutex::default(),
            readers: Mutex::default(),
            freeing: Mutex::default(),
            used: owner.used(),
            headers: header_buffers::Pool::default(),
            plain: Plain::new(root, owner.store),
        }
    }

    /// Checks that the target is there, unless a check has succeeded before.
    fn check_present(&self) -> io::Result<()> {
        if self.known.load(Ordering::Acquire) { Ok(()) } else { self.ready() }
    }

    /// Makes a second attempt if a file was not found but the directory is there, because the directory may have been away at
    /// the first. So `NotFound` always means that the file is missing, and never that the directory is away.
    fn retry_if_away<T>(&self, attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match attempt() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.check_again()?;
                attempt()
            }
            outcome => outcome,
        }
    }

    /// Like [`DirectoryTarget::retry_if_away`], but returns `None` for a missing file.
    fn find_unless_away<T>(&self, attempt: impl Fn() -> io::Result<T>) -> io::Result<Option<T>> {
        match self.retry_if_away(attempt) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Closes a segment to which no thread writes at the moment, so that [`Target::discard`] can delete it. A process that writes for
    /// others calls this once it knows that none of them may commit a frame in it any more.
    pub fn release(&self, segment: u64) {
        for pool in [&self.idle, &self.full] {
            pool.lock().retain(|open| open.id != segment);
        }
    }

    /// Closes all full segments, as [`DirectoryTarget::release`] does.
    pub fn release_full(&self) {
        self.full.lock().clear();
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.root.join(SEGMENTS_FOLDER).join(format!("{segment:016x}"))
    }

    fn segments(&self) -> io::Result<Vec<u64>> {
        let mut ids = Vec::new();
        for entry in self.retry_if_away(|| fs::read_dir(self.root.join(SEGMENTS_FOLDER)))? {
            if let Some(id) = entry?.file_name().to_str().and_then(|name| u64::from_str_radix(name, 16).ok()) {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Gets a segment to append to: an idle one of this process, or one of a dead writer, or a new one.
    fn writable(&self) -> io::Result<Segment> {
        let oldest_in_use = self.ids.oldest_in_use();
        while let Some(segment) = self.idle.lock().pop() {
            if segment.id >= oldest_in_use {
                return Ok(segment);
            }
        }
        let oldest = self.ids.oldest();
        for id in self.segments()?.into_iter().rev().take_while(|id| *id >= oldest).take(16) {
            let path = self.path(id);
            if fs::metadata(&path).is_ok_and(|m| m.len() < FULL_SEGMENT_BYTES)
                && let Ok(Some(mut segment)) = Segment::claim(&path, id)
                // Asked while the segment is locked: all frames of earlier writers are committed by now, or never will be. If
                // the file is shorter than the catalog says, places behind its end are taken, and must not be reused.
                && let Ok(named) = self.ids.named_end(self.number, id)
                && named <= segment.end
                && let Ok(end) = self.end_of_frames(id, named)
            {
                segment.end = segment.end.max(end);
                return Ok(segment);
            }
        }
        loop {
            let id = self.ids.next()?;
            match self.retry_if_away(|| Segment::create(&self.path(id), id)) {
                // Another writer has found and claimed the new file before this one locked it.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                made => return made,
            }
        }
    }

    /// Returns a segment after a frame could not be written at `end`. The frame's remains are cut off: no commit can name them,
    /// because the caller got no place. An empty segment is removed, since otherwise each failed write on a full file system
    /// would leave a file.
    fn take_back(&self, mut segment: Segment, end: u64) {
        if end == 0 && fs::remove_file(self.path(segment.id)).is_ok() {
            return;
        }
        let pool = if segment.cut(end).is_ok() { &self.idle } else { &self.full };
        pool.lock().push(segment);
    }

    fn reader(&self, segment: u64) -> io::Result<Arc<File>> {
        if let Some(file) = self.readers.lock().get(&segment) {
            return Ok(file.clone());
        }
        let file = Arc::new(self.retry_if_away(|| open_regular(&self.path(segment)))?);
        let mut readers = self.readers.lock();
        if readers.len() >= MAX_OPEN_FILES {
            readers.clear();
        }
        readers.insert(segment, file.clone());
        Ok(file)
    }

    fn measure(&self) -> io::Result<u64> {
        let allocated = |id| fs::metadata(self.path(id)).map_or(0, |m| m.blocks() * 512);
        Ok(self.segments()?.into_iter().map(allocated).sum::<u64>() + self.plain.used()?)
    }

    /// Reserves space for bytes that are about to be written.
    fn take_room(&self, bytes: u64) -> io::Result<Taken<'_>> {
        let full = |e: io::Error| match e.kind() {
            io::ErrorKind::StorageFull => io::Error::new(e.kind(), format!("{} is full", self.root.display())),
            _ => e,
        };
        self.used.take(bytes, self.capacity, || self.measure()).map_err(full)
    }
}

impl Target for DirectoryTarget {
    fn ready(&self) -> io::Result<()> {
        self.check_marker()?;
        self.home.take(&self.root)?;
        // `was_seen` first: a thread that sees `known` must not make the target again later.
        self.was_seen.store(true, Ordering::Release);
        self.known.store(true, Ordering::Release);
        Ok(())
    }

    fn append(&self, frame: &Frame<'_>) -> io::Result<Place> {
        self.check_present()?;
        let mut segment = self.writable()?;
        let before = segment.end;
        let place = segment.place(frame.header.frame_len() as u32);
        let grows = segment.grows(place);
        let _room = match self.take_room(grows) {
            Ok(room) => room,
            Err(e) => {
                self.take_back(segment, before);
                return Err(e);
            }
        };
        let mut header = self.headers.take();
        frame.header.write(self.store, place, &mut header);
        let written = segment.write(place, &header, frame.payload);
        self.headers.give(header);
        if let Err(e) = written {
            self.used.make_stale();
            self.take_back(segment, before);
            return Err(e);
        }
        let pool = if segment.end < FULL_SEGMENT_BYTES { &self.idle } else { &self.full };
        pool.lock().push(segment);
        Ok(place)
    }

    fn read(&self, place: Place, skip: u32, out: &mut [u8]) -> io::Result<()> {
        self.check_present()?;
        if place.is_plain() {
            return match self.plain.read(place, skip, out) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    // As `retry_if_away` does.
                    self.check_again()?;
                    self.plain.read(place, skip, out)
                }
                outcome => outcome,
            };
        }
        let file = self.reader(place.segment)?;
        file.read_exact_at(out, place.offset + u64::from(skip))
    }

    fn sync(&self, segments: &[u64]) -> io::Result<()> {
        self.check_present()?;
        let (files, segments): (Vec<u64>, Vec<u64>) = segments.iter().partition(|id| *id & PLAIN_SEGMENT_BIT != 0);
        self.plain.sync(&files)?;
        for id in segments {
            if let Some(file) = self.find_unless_away(|| open_regular(&self.path(id)))? {
                let file = if failed_sync::has_failed(&file)? { self.write_again(id)? } else { file };
                // The length of a file is synced with its data, so a frame at its end is covered.
                failed_sync::sync_data(&file)?;
            }
        }
        // The names of new segments.
        self.retry_if_away(|| File::open(self.root.join(SEGMENTS_FOLDER)))?.sync_all()
    }

    fn free(&self, places: &[Place]) -> io::Result<()> {
        self.check_present()?;
        // Plain files are also read without Terrace, so they are removed as a whole only, by `discard`.
        let mut sorted: Vec<Place> = places.iter().copied().filter(|place| !place.is_plain()).collect();
        sorted.sort_unstable();
        let _one_at_a_time = self.freeing.lock();
        for group in sorted.chunk_by(|a, b| a.segment == b.segment) {
            let Some(first) = group.first() else { continue };
            let open = || File::options().read(true).write(true).open(self.path(first.segment));
            let Some(file) = self.find_unless_away(open)? else { continue };
            let before = file.metadata()?.blocks();
            // Adjacent places are freed together, which also frees the page that they share.
            for run in group.chunk_by(|a, b| a.end().next_multiple_of(FRAME_ALIGNMENT) == b.offset) {
                if let (Some(first), Some(last)) = (run.first(), run.last()) {
                    segment::punch(&file, first.offset, last.end() - first.offset)?;
                }
            }
            self.used.give_back(before.saturating_sub(file.metadata()?.blocks()) * 512);
        }
        Ok(())
    }

    fn discard(&self, segment: u64) -> io::Result<bool> {
        self.check_present()?;
        if segment & PLAIN_SEGMENT_BIT != 0 {
            // A missing file counts as discarded, provided that the target is there.
            self.ready()?;
            let bytes = self.plain.allocated(segment);
            self.plain.discard(segment)?;
            self.used.give_back(bytes);
            return Ok(true);
        }
        let path = self.path(segment);
        // The lock is held until the file is gone, so that no writer claims the segment in between.
        let held = match self.find_unless_away(|| segment::hold(&path))? {
            None => return Ok(true),
            Some(None) => return Ok(false),
            Some(Some(held)) => held,
        };
        let bytes = held.metadata()?.blocks() * 512;
        fs::remove_file(&path)?;
        self.used.give_back(bytes);
        self.readers.lock().remove(&segment);
        Ok(true)
    }

    fn allocated(&self, segment: u64) -> u64 {
        if segment & PLAIN_SEGMENT_BIT != 0 {
            return self.plain.allocated(segment);
        }
        fs::metadata(self.path(segment)).map_or(0, |metadata| metadata.blocks() * 512)
    }

    fn sync_failed(&self, segment: u64) -> bool {
        // A plain file holds one frame, and is removed if no commit names it.
        let is_noted = |found: fs::Metadata| found.mode() & failed_sync::FAILED_SYNC_BIT != 0;
        segment & PLAIN_SEGMENT_BIT == 0 && fs::metadata(self.path(segment)).is_ok_and(is_noted)
    }

    fn space(&self) -> io::Result<Space> {
        self.check_present()?;
        let used = self.used.get(MAX_MEASUREMENT_AGE, || self.measure())?;
        let system = self.retry_if_away(|| Ok(rustix::fs::statvfs(&self.root)?))?;
        // Without free inodes no segment can be made. A file system that does not count inodes reports 0 of 0.
        let has_inodes = system.f_files == 0 || system.f_favail > 0;
        let left = if has_inodes { system.f_bavail.saturating_mul(system.f_frsize) } else { 0 };
        Ok(Space {
            used,
            capacity: self.capacity.min(used.saturating_add(left)),
            read_only: system.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
        })
    }

    fn used(&self) -> u64 {
        self.used.counted()
    }

    fn scan(&self, found: &mut dyn FnMut(Place, Header)) -> io::Result<()> {
        self.scan_from(0, 0, &mut |place, header| {
            found(place, header);
            ControlFlow::Continue(())
        })?;
        self.plain.scan(found)?;
        self.check_again()
    }

    fn files(&self) -> Option<&dyn FileStore> {
        Some(self)
    }

    fn check_again(&self) -> io::Result<()> {
        self.known.store(false, Ordering::Release);
        // They may be files of another target that was in its place for a while.
        self.readers.lock().clear();
        self.ready()
    }

    fn note_new(&self) -> io::Result<()> {
        // The segments that this process has open may be files that are gone.
        self.idle.lock().clear();
        self.full.lock().clear();
        self.emptied.write()
    }

    fn is_new(&self) -> bool {
        self.emptied.exists()
    }

    fn forget_new(&self) -> io::Result<()> {
        self.emptied.remove()
    }

    fn file(&self, segment: u64) -> Option<PathBuf> {
        Some(if segment & PLAIN_SEGMENT_BIT != 0 { self.plain.read_path(segment) } else { self.path(segment) })
    }
}

impl FileStore for DirectoryTarget {
    fn write_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        // Missing folders of plain files are created, but never in a directory that is not the target.
        self.ready()?;
        let _room = self.take_room(frame.header.frame_len())?;
        self.plain.write(file, frame).inspect_err(|_| self.used.make_stale())
    }

    fn adopt(&self, file: u64, source: &File) -> io::Result<Option<Adoption>> {
        // As for `write_frame`.
        self.ready()?;
        if self.plain.clone_file(file, source, |bytes| self.take_room(bytes))? {
            return Ok(Some(Adoption::Cloned));
        }
        Ok(self.plain.link_file(file, source)?.then_some(Adoption::Linked))
    }

    fn describe_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place> {
        self.ready()?;
        self.plain.describe(file, frame).inspect_err(|_| self.used.make_stale())
    }

    fn is_linked(&self, file: u64) -> bool {
        self.plain.is_linked(file)
    }

    fn set_name(&self, key: &[u8], now: Option<&Whole>, before: &[u64]) -> io::Result<bool> {
        // As for `write_frame`.
        self.ready()?;
        self.plain.set_name(key, now, before)
    }

    fn is_named(&self, key: &[u8], whole: &Whole) -> io::Result<bool> {
        self.check_present()?;
        if self.plain.is_linked(whole.file) {
            return Ok(true);
        }
        Ok(self.plain.is_named(key, whole.file)? && self.plain.length(whole.file)? <= whole.length)
    }

    fn names(&self) -> io::Result<Vec<(Vec<u8>, u64)>> {
        self.check_present()?;
        let names = self.plain.names()?;
        // A missing folder means no names, provided that the target is there.
        self.check_again().map(|()| names)
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        self.check_present()?;
        let numbers = self.plain.all()?;
        // As for names.
        self.check_again().map(|()| numbers)
    }
}
