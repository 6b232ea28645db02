//! A served target: a directory target, and what the node keeps about it.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix_futex_sync::{Mutex, RwLock};
use terrace_format::frame::{Frame, Header, is_payload_of};
use terrace_system::Locked;
use terrace_system::replace_durably;
use terrace_tier::{
    DirectoryKind, DirectoryTarget, Ids, Making, Place, Target, TargetKind, TargetOwner, TargetSettings, read_marker,
};

use crate::wire::{MAX_OFFSET, Owner, SegmentAnswer, SpaceAnswer, write_header};

/// The folder of a target in which the node keeps its own files.
const NODE_FOLDER: &str = "node";
const LOCK_FILE: &str = "lock";
const STATE_FILE: &str = "state";
/// A page of headers ends after frames of this many bytes, which are read to find the headers ...
const PAGE_FRAME_BYTES: u64 = 64 << 20;
/// ... or after headers of this many bytes.
const PAGE_HEADER_BYTES: usize = 1 << 20;
/// The most numbers for new segments that are kept. Clients send one only when it is needed.
const MAX_SPARE_NUMBERS: usize = 64;

/// A directory that a node serves.
#[derive(Clone, Debug)]
pub struct ServedTarget {
    /// Its name in addresses: lower-case letters of ASCII, digits and `-`.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// The most bytes that it may allocate, whatever clients say.
    pub capacity: u64,
}

/// An append needs a number for a new segment.
#[derive(Debug)]
pub struct NumberNeeded;

impl std::fmt::Display for NumberNeeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number for a new segment is needed")
    }
}

impl std::error::Error for NumberNeeded {}

/// Numbers for new segments, which clients send: they are unique in the store, and so never used again.
#[derive(Default)]
struct SpareNumbers(Mutex<Vec<u64>>);

impl Ids for SpareNumbers {
    fn next(&self) -> io::Result<u64> {
        self.0.lock().pop().ok_or_else(|| io::Error::other(NumberNeeded))
    }

    /// No segment that is found is appended to. Frames of an earlier run may lie behind its end if the machine went down.
    fn oldest(&self) -> u64 {
        u64::MAX
    }
}

/// A target in use.
pub struct Open {
    pub owner: Owner,
    pub incarnation: u64,
    directory: DirectoryTarget,
    numbers: Arc<dyn Ids>,
    /// Empty if the node has numbers of its own.
    spare: Arc<SpareNumbers>,
    folder: PathBuf,
    /// Keeps other nodes away from the directory.
    _lock: Locked,
}

/// A target that may be in use. Requests about frames hold the lock shared, and the making and removal of the target alone.
pub struct Served {
    served: ServedTarget,
    /// The node's own numbers for new segments; none: clients send them.
    numbers: Option<Arc<dyn Ids>>,
    open: RwLock<Option<Arc<Open>>>,
}

fn away(path: &Path, reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, format!("{} on the node: {reason}", path.display()))
}

/// Refuses numbers that cannot be, before anything is added to them.
fn check_place(place: &Place) -> io::Result<()> {
    check_number(place.segment)?;
    if place.offset < MAX_OFFSET { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn check_number(segment: u64) -> io::Result<()> {
    if segment < MAX_OFFSET { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

impl Served {
    /// Serves a directory. It need not be there yet.
    pub fn new(served: ServedTarget, numbers: Option<Arc<dyn Ids>>) -> Served {
        Served { served, numbers, open: RwLock::new(None) }
    }

    /// The owner by the marker on the disk, and the incarnation.
    pub fn find_owner(&self) -> io::Result<(Option<Owner>, Option<u64>)> {
        let mark = match read_marker(&self.served.path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok((None, None));
            }
            mark => mark?,
        };
        let owner = Owner::from_mark(&mark).ok_or_else(|| away(&self.served.path, "its marker is damaged"))?;
        let open = self.open(owner)?;
        open.directory.check_again()?;
        Ok((Some(owner), Some(open.incarnation)))
    }

    /// The target, if it is this owner's.
    ///
    /// # Errors
    /// `NotConnected` if it is not there. `AlreadyExists` if it is another's.
    pub fn open(&self, owner: Owner) -> io::Result<Arc<Open>> {
        let is_another = |other: Owner| {
            let reason = format!("it belongs to another store or target ({})", other.mark().replace('\n', " "));
            io::Error::new(io::ErrorKind::AlreadyExists, reason)
        };
        if let Some(open) = self.open.read().as_ref().filter(|open| open.owner == owner) {
            return Ok(open.clone());
        }
        let mut held = self.open.write();
        // Another thread may have opened it meanwhile, and holds the lock of the directory.
        if let Some(open) = held.as_ref().filter(|open| open.owner == owner) {
            return Ok(open.clone());
        }
        let mark = match read_marker(&self.served.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(away(&self.served.path, "no target is here; is its disk mounted?"));
            }
            mark => mark?,
        };
        match Owner::from_mark(&mark) {
            None => Err(away(&self.served.path, "its marker is damaged")),
            Some(other) if other != owner => Err(is_another(other)),
            Some(_) => {
                // Before the new one takes the lock.
                *held = None;
                let open = Arc::new(Open::new(&self.served, self.numbers.clone(), owner, Making::Never)?);
                *held = Some(open.clone());
                Ok(open)
            }
        }
    }

    /// Makes an empty target for this owner, unless it is there.
    pub fn make(&self, owner: Owner) -> io::Result<u64> {
        match self.find_owner()? {
            (None, _) => {}
            _ => return self.open(owner).map(|open| open.incarnation),
        }
        let mut held = self.open.write();
        // Another request may have made it meanwhile.
        if read_marker(&self.served.path).is_ok() {
            drop(held);
            return self.open(owner).map(|open| open.incarnation);
        }
        // What was open here has lost its marker.
        *held = None;
        DirectoryTarget::probe(&self.served.path)?;
        let open = Arc::new(Open::new(&self.served, self.numbers.clone(), owner, Making::Always)?);
        open.directory.ready()?;
        let incarnation = open.incarnation;
        *held = Some(open);
        Ok(incarnation)
    }

    /// Removes the target of this owner with everything in it.
    pub fn remove(&self, owner: Owner) -> io::Result<()> {
        let open = self.open(owner)?;
        let mut held = self.open.write();
        *held = None;
        let owner = open.target_owner();
        // Another request may still use the directory. It finds nothing any more.
        drop(open);
        DirectoryKind.remove(&TargetSettings::at(&self.served.path), &owner)?;
        match fs::remove_dir_all(self.served.path.join(NODE_FOLDER)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Makes everything durable, and notes that nothing is lost when the machine goes down.
    pub fn end(&self) {
        if let Some(open) = self.open.write().take()
            && let Err(error) = open.note_end(&self.served.path)
        {
            tracing::warn!(target = %self.served.path.display(), %error, "not durable; clients will check its frames");
        }
    }
}

impl Open {
    fn new(served: &ServedTarget, numbers: Option<Arc<dyn Ids>>, owner: Owner, making: Making) -> io::Result<Open> {
        let folder = served.path.join(NODE_FOLDER);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(folder.join(LOCK_FILE))?;
        let lock = Locked::at_once(lock)?;
        let lock = lock.ok_or_else(|| away(&served.path, "another node serves this directory"))?;
        let state = State::read(&folder);
        let incarnation = match state.filter(|state| state.is_clean || state.boot == boot_id()) {
            Some(state) => state.incarnation,
            // The hasher's keys are random.
            None => RandomState::new().hash_one(served.path.as_os_str()).max(1),
        };
        // Durable before the first frame is taken: from here on, an end of the machine changes the incarnation.
        State { incarnation, boot: boot_id(), is_clean: false }.write(&folder)?;
        let spare = Arc::new(SpareNumbers::default());
        let numbers = numbers.unwrap_or_else(|| spare.clone());
        let ids = numbers.clone();
        let target_owner = TargetOwner { store: owner.store, number: owner.target, dir: folder.clone(), ids };
        let directory = DirectoryTarget::new(&served.path, &target_owner, served.capacity, making);
        Ok(Open { owner, incarnation, directory, numbers, spare, folder, _lock: lock })
    }

    fn target_owner(&self) -> TargetOwner {
        let ids = self.numbers.clone();
        TargetOwner { store: self.owner.store, number: self.owner.target, dir: self.folder.clone(), ids }
    }

    fn note_end(&self, root: &Path) -> io::Result<()> {
        // Before the note: it says that no power cut since can have taken bytes that were written here.
        rustix::fs::syncfs(File::open(root)?)?;
        State { incarnation: self.incarnation, boot: boot_id(), is_clean: true }.write(&self.folder)
    }

    /// Appends a frame as it was sent.
    pub fn append(&self, bytes: &[u8], number: Option<u64>) -> io::Result<Place> {
        let invalid = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
        let nowhere = Place { segment: 0, offset: 0, length: 0 };
        let header = Header::read(bytes, self.owner.store, nowhere).map_err(invalid)?;
        // The payload's checksums are not compared: TLS has done so, or the bytes never left the machine. Each read does it again.
        // A shorter one would be a torn frame, as a device leaves it when it fails. It does no harm: every read would notice it.
        let payload = bytes.get(header.written_len()..).filter(|rest| rest.len() <= header.stored_len as usize);
        let payload = payload.ok_or_else(|| invalid("the frame is longer than its header says"))?;
        if let Some(number) = number {
            check_number(number).map_err(|_| invalid("no segment has this number"))?;
            let mut spare = self.spare.0.lock();
            if spare.len() < MAX_SPARE_NUMBERS {
                spare.push(number);
            }
        }
        let place = self.directory.append(&Frame { header, payload })?;
        // The clients' locks keep a segment from being discarded, so an open file is of no use to a full one.
        self.directory.release_full();
        Ok(place)
    }

    /// Reads bytes of a frame.
    pub fn read(&self, segment: u64, offset: u64, skip: u32, out: &mut [u8]) -> io::Result<()> {
        let place = Place { segment, offset, length: 0 };
        check_place(&place)?;
        self.directory.read(place, skip, out)
    }

    /// Makes segments durable.
    pub fn sync(&self, segments: &[u64]) -> io::Result<()> {
        let known: Vec<u64> = segments.iter().copied().filter(|segment| check_number(*segment).is_ok()).collect();
        self.directory.sync(&known)
    }

    /// Frees places.
    pub fn free(&self, places: &[Place]) -> io::Result<()> {
        let known: Vec<Place> = places.iter().copied().filter(|place| check_place(place).is_ok()).collect();
        self.directory.free(&known)
    }

    /// Deletes segments. The client has made sure that nobody may still commit a frame in them.
    pub fn discard(&self, segments: &[u64]) -> io::Result<Vec<bool>> {
        let discard = |segment: &u64| {
            if check_number(*segment).is_err() {
                return Ok(true);
            }
            self.directory.release(*segment);
            self.directory.discard(*segment)
        };
        segments.iter().map(discard).collect()
    }

    /// Whether the frames at these places are whole.
    pub fn verify(&self, places: &[Place]) -> io::Result<Vec<bool>> {
        places.iter().map(|place| self.is_whole(place)).collect()
    }

    fn is_whole(&self, place: &Place) -> io::Result<bool> {
        if place.length as usize > crate::wire::MAX_FRAME_BYTES {
            return Ok(false);
        }
        let mut bytes = vec![0; place.length as usize];
        match self.read(place.segment, place.offset, 0, &mut bytes) {
            Ok(()) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => return Ok(false),
            Err(e) => return Err(e),
        };
        let Ok(header) = Header::read(&bytes, self.owner.store, *place) else { return Ok(false) };
        let payload = bytes.get(header.written_len()..);
        Ok(payload.is_some_and(|payload| is_payload_of(&header, payload)))
    }

    /// The use and the capacity.
    pub fn space(&self) -> io::Result<SpaceAnswer> {
        let space = self.directory.space()?;
        Ok(SpaceAnswer { used: space.used, capacity: space.capacity, read_only: space.read_only })
    }

    /// A segment.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    pub fn segment(&self, segment: u64) -> io::Result<SegmentAnswer> {
        check_number(segment)?;
        let exists = || self.directory.file(segment).is_some_and(|file| file.exists());
        if !exists() {
            // The directory may have been away.
            self.directory.check_again()?;
            if !exists() {
                return Err(io::ErrorKind::NotFound.into());
            }
        }
        Ok(SegmentAnswer { allocated: self.directory.allocated(segment) })
    }

    /// A page of headers from this place on. With `whole`, only of frames that are whole.
    pub fn headers(&self, segment: u64, offset: u64, whole: bool) -> io::Result<Page> {
        check_place(&Place { segment, offset, length: 0 })?;
        let mut page = Page::default();
        let (mut bytes, mut failed) = (0, Ok(()));
        self.directory.scan_from(segment, offset, &mut |place, header| {
            if bytes >= PAGE_FRAME_BYTES || page.headers.len() >= PAGE_HEADER_BYTES {
                page.next = Some((place.segment, place.offset));
                return ControlFlow::Break(());
            }
            bytes += u64::from(place.length);
            match if whole { self.is_whole(&place) } else { Ok(true) } {
                Ok(true) => write_header(&mut page.headers, self.owner.store, place, &header),
                Ok(false) => {}
                Err(error) => {
                    failed = Err(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        failed.map(|()| page)
    }
}

/// A page of headers.
#[derive(Default)]
pub struct Page {
    /// Places and headers.
    pub headers: Vec<u8>,
    /// The segment and the offset at which the next page begins.
    pub next: Option<(u64, u64)>,
}

/// The note of a node in a target, which tells when frames that were not synced may be gone.
struct State {
    incarnation: u64,
    /// The boot in which frames were written last.
    boot: String,
    /// Whether all frames were durable at the end of the node.
    is_clean: bool,
}

impl State {
    fn read(folder: &Path) -> Option<State> {
        let text = fs::read_to_string(folder.join(STATE_FILE)).ok()?;
        let mut words = text.split_whitespace();
        let incarnation = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(State { incarnation, boot: words.next()?.to_owned(), is_clean: words.next()? == "clean" })
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let word = if self.is_clean { "clean" } else { "used" };
        replace_durably(&folder.join(STATE_FILE), format!("{:016x} {} {word}\n", self.incarnation, self.boot))
    }
}

/// The kernel's id of this boot; never empty, and never equal to a noted one if the kernel does not tell.
fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.trim().is_empty() { format!("unknown-{}", std::process::id()) } else { id.trim().to_owned() }
}
