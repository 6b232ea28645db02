//! A watched directory: what is dropped there flows on under the same names, and is removed once it is safe.
//!
//! A file is taken when nobody has it open for writing and it was closed or renamed into its place, or has not changed for a while. It is
//! pulled in parts, each for its own offset, so that it may be begun with again at any time. When all of it is durable
//! where it went it is removed ([`removal`]). Files whose names begin with a dot are not taken: that is what those that are not complete are
//! called.

mod folder;
mod identity;
mod look;
mod record;
mod removal;
mod writers;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::io::Errno;
use rustix_futex_sync::Mutex;
use terrace::{Attributes, Store};

use crate::control::{Control, Left};
use crate::destinations::Destination;
use crate::entry::{Entry, Position, SourceFile};
use crate::request::{Name, Place, Request};
use crate::{Error, Pulled, Result, Settings, Source};
use folder::Folder;
use identity::Identity;
use look::{Look, Settle};
use record::Records;
pub use record::{Tally, all_tallies};
use removal::{Ended, Removal};
use writers::{Leased, give_lease, open_for_writing, take_lease};

/// Bytes that are pulled as one request.
const PART_BYTES: u64 = 1 << 20;
/// How long files are left alone of which nobody is seen to close them.
const USUAL_SETTLE_TIME: Duration = Duration::from_secs(1);
/// How long files are left alone of which the system does not tell whether they are open for writing.
const BLIND_SETTLE_TIME: Duration = Duration::from_secs(30);
/// Two changes within this time may leave the same time of change: it is longer than any clock tick of the system.
const CLOCK_TICK: Duration = Duration::from_millis(20);
/// How long it is remembered which files are open for writing, where only a look at all processes tells.
const SCAN_LIFETIME: Duration = Duration::from_secs(1);

/// How a directory is pulled.
#[derive(Clone, Debug)]
pub struct Watch {
    /// How long a file must not have changed before it is taken. Where nothing is said: a second for files that nobody is seen to
    /// close, 30 seconds for files of which the system does not tell whether they are open for writing, and no time for others.
    pub settle: Option<Duration>,
    /// Deliver what is added to files behind what was delivered of them, and remove none.
    pub tail: bool,
    /// How long the directory may be away.
    pub patience: Duration,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch { settle: None, tail: false, patience: Settings::default().patience }
    }
}

/// A directory as a source.
pub struct Directory {
    root: PathBuf,
    folder: Arc<Folder>,
    number: usize,
    watch: Watch,
    control: Arc<Control>,
    look: Look,
    state: Mutex<State>,
}

struct State {
    /// Files that are to be pulled.
    queue: VecDeque<Name>,
    /// The file that is being pulled.
    reading: Option<Reading>,
    /// Files that are queued, or were pulled, wholly or in part, and are not done.
    open: BTreeMap<Name, Open>,
    /// Files that have no name any more, and to which something was added.
    added: BTreeMap<Name, File>,
    removal: Removal,
    /// The files that are open for writing, as the processes told, and when.
    scan: Option<(Instant, HashSet<(u64, u64)>)>,
    next: u64,
}

struct Reading {
    name: Name,
    file: File,
    facts: Arc<SourceFile>,
    size: u64,
    offset: u64,
}

#[derive(Default)]
struct Open {
    /// None where it is only queued.
    identity: Option<Identity>,
    /// Parts that are not done.
    left: u64,
    /// The number of its first part. Those before belong to what was begun with earlier, and do not count.
    first: u64,
}

/// Why a file is not taken now.
enum Unready {
    Gone,
    Later(String, Duration),
    Stays(String),
}

fn parts(size: u64) -> u64 {
    size.div_ceil(PART_BYTES).max(1)
}

impl Directory {
    /// The directory `root` as source number `number` of stream `stream`, whose bytes go to `destination`.
    pub fn new(
        store: &Store,
        stream: &str,
        root: &Path,
        watch: &Watch,
        number: usize,
        destination: &Arc<dyn Destination>,
        control: &Arc<Control>,
    ) -> Result<Directory> {
        let root = fs::canonicalize(root).map_err(Error::io(format!("opening {}", root.display())))?;
        let folder = Folder::open(&root).map_err(Error::io(format!("opening {}", root.display())))?;
        let folder = Arc::new(folder);
        let settle = Settle { time: watch.settle.unwrap_or(USUAL_SETTLE_TIME), always: watch.settle.is_some() };
        let records = Records::new(store, stream, &root);
        let mut removal = Removal::new(&root, folder.clone(), records, destination.clone(), settle.time);
        let stays = removal.resume()?;
        let look = Look::new(&root, settle, watch.patience)?;
        stays.iter().for_each(|(name, reason)| look.stays(name, reason));
        let state = State {
            queue: VecDeque::new(),
            reading: None,
            open: BTreeMap::new(),
            added: BTreeMap::new(),
            removal,
            scan: None,
            next: 0,
        };
        let (control, watch, state) = (control.clone(), watch.clone(), Mutex::new(state));
        Ok(Directory { root, folder, number, watch, control, look, state })
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.root.join(std::ffi::OsStr::from_bytes(name))
    }

    /// Opens a file if nobody has it open for writing.
    fn open(&self, state: &mut State, name: &Name) -> Result<std::result::Result<(File, fs::Metadata), Unready>> {
        let cannot = |e: io::Error| match Errno::from_io_error(&e) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                Err(Error::io(format!("opening {}", self.path(name).display()))(e))
            }
            Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(Err(Unready::Gone)),
            Some(Errno::AGAIN) => {
                Ok(Err(Unready::Later("another process holds a lease on it".into(), USUAL_SETTLE_TIME)))
            }
            _ => Ok(Err(Unready::Stays(format!("it cannot be read: {e}")))),
        };
        let file = match self.folder.file(name) {
            Ok(file) => file,
            Err(e) => return cannot(e),
        };
        let settle = self.watch.settle.unwrap_or(USUAL_SETTLE_TIME);
        let is_open = || Ok(Err(Unready::Later("it is open for writing".into(), settle)));
        let leased = take_lease(&file);
        give_lease(&file);
        if leased == Leased::Writers {
            return is_open();
        }
        let mut metadata = match file.metadata() {
            Ok(metadata) => metadata,
            Err(e) => return cannot(e),
        };
        if !metadata.is_file() {
            return Ok(Err(Unready::Gone));
        }
        let identity = Identity::of(&metadata);
        if leased == Leased::Unsupported {
            let settle = self.watch.settle.unwrap_or(BLIND_SETTLE_TIME);
            if state.is_open_for_writing(&identity) {
                return is_open();
            }
            if identity.age() < settle {
                let reason = "the system does not tell whether it is open for writing, and it has changed lately";
                return Ok(Err(Unready::Later(reason.into(), settle)));
            }
        }
        // A change in the same tick of the clock as the last one would not be seen to have happened.
        if identity.age() < CLOCK_TICK {
            std::thread::sleep(CLOCK_TICK - identity.age());
            metadata = match file.metadata() {
                Ok(metadata) => metadata,
                Err(e) => return cannot(e),
            };
        }
        Ok(Ok((file, metadata)))
    }

    /// Begins with a file, from its first byte. One that is not to be taken now is passed over.
    fn begin(&self, state: &mut State, name: &Name) -> Result<()> {
        let opened = match state.added.get(name) {
            Some(file) => self.open_added(name, file)?,
            None => self.open(state, name)?,
        };
        let (file, metadata) = match opened {
            Ok(opened) => opened,
            Err(unready) => {
                state.open.remove(name);
                match unready {
                    Unready::Gone => self.look.taken(name),
                    Unready::Later(reason, settle) => self.look.later(name, &reason, settle),
                    Unready::Stays(reason) => self.look.stays(name, &reason),
                }
                return Ok(());
            }
        };
        self.look.taken(name);
        let identity = Identity::of(&metadata);
        let Identity { device, inode, size, .. } = identity;
        let first = state.next + 1;
        state.open.insert(name.clone(), Open { identity: Some(identity), left: parts(size), first });
        let facts = Arc::new(SourceFile { attributes: Attributes::of(&metadata), device, inode });
        state.reading = Some(Reading { name: name.clone(), file, facts, size, offset: 0 });
        Ok(())
    }

    /// Opens again a file that has no name any more, by its descriptor.
    fn open_added(&self, name: &Name, file: &File) -> Result<std::result::Result<(File, fs::Metadata), Unready>> {
        let opened = file.try_clone().and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(Error::io(format!("reading {}", self.path(name).display())))?;
        Ok(Ok((file, metadata)))
    }

    /// Queues files that may be complete.
    fn find(&self, state: &mut State) -> Result<()> {
        let known = |name: &Name| {
            state.open.contains_key(name) || state.added.contains_key(name) || state.removal.is_leaving(name)
        };
        for name in self.look.complete(known)? {
            state.open.insert(name.clone(), Open::default());
            state.queue.push_back(name);
        }
        self.tell(state);
        Ok(())
    }

    /// Tells others what is left.
    fn tell(&self, state: &State) {
        let mut left = Left { files: state.open.len() as u64, ..Left::default() };
        left.bytes = state.open.values().filter_map(|open| Some(open.identity?.size)).sum();
        // What is queued may be among those that were looked at.
        for untaken in self.look.untaken().into_iter().filter(|untaken| !state.open.contains_key(&untaken.name)) {
            left.files += 1;
            left.bytes += untaken.bytes;
            left.stays.extend(untaken.reason.map(|reason| (self.path(&untaken.name).display().to_string(), reason)));
        }
        left.stays.sort();
        self.control.tell_left(self.number, left);
    }

    /// The next part of the first file.
    fn part(&self, state: &mut State) -> Result<Option<Entry>> {
        while state.reading.is_none() {
            let Some(name) = state.queue.pop_front() else { return Ok(None) };
            self.begin(state, &name)?;
        }
        let Some(reading) = state.reading.as_mut() else { return Ok(None) };
        let (name, facts, offset) = (reading.name.clone(), reading.facts.clone(), reading.offset);
        let mut bytes = vec![0; (reading.size - offset.min(reading.size)).min(PART_BYTES) as usize];
        match reading.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            // It has become shorter, and is begun with again when it is found to be another file.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(e) => {
                state.reading = None;
                state.open.remove(&name);
                self.look.stays(&name, &format!("it cannot be read: {e}"));
                return self.part(state);
            }
        }
        reading.offset += bytes.len() as u64;
        let ends = reading.offset >= reading.size;
        if ends {
            state.reading = None;
        }
        state.next += 1;
        let position = Position(state.next, 0);
        let request = Request { destination: name, place: Place::At(offset), bytes: Bytes::from(bytes), ends };
        Ok(Some(Entry { request, source: self.number, position, file: Some(facts), lane: None }))
    }

    /// All of a file is durable where it went.
    fn safe(&self, state: &mut State, name: &Name) -> Result<()> {
        let Some(identity) = state.open.remove(name).and_then(|open| open.identity) else { return Ok(()) };
        if state.added.contains_key(name) {
            return self.safe_added(state, name, identity);
        }
        match state.removal.begin(name, identity)? {
            Some(ended) => self.end(state, name, ended),
            None => Ok(()),
        }
    }

    /// All of a file without a name is durable where it went.
    fn safe_added(&self, state: &mut State, name: &Name, identity: Identity) -> Result<()> {
        let Some(file) = state.added.get(name) else { return Ok(()) };
        let is_quiet = take_lease(file) != Leased::Writers;
        let now = file.metadata().map_err(Error::io(format!("looking at {}", self.path(name).display())))?;
        give_lease(file);
        if is_quiet && Identity::of(&now).has_same_bytes(&identity) {
            state.added.remove(name);
            self.control.tell_file_done();
            return state.removal.finish(name, identity.size);
        }
        Ok(())
    }

    /// Queues files without a name that nobody writes to any more.
    fn find_added(&self, state: &mut State) {
        let is_due = |(name, file): &(&Name, &File)| {
            let is_due = !state.open.contains_key(*name) && take_lease(file) != Leased::Writers;
            give_lease(file);
            is_due
        };
        let due: Vec<Name> = state.added.iter().filter(is_due).map(|(name, _)| name.clone()).collect();
        for name in due {
            state.open.insert(name.clone(), Open::default());
            state.queue.push_back(name);
        }
    }

    /// A file's removal has ended.
    fn end(&self, state: &mut State, name: &Name, ended: Ended) -> Result<()> {
        match ended {
            Ended::Removed => self.control.tell_file_done(),
            Ended::Changed(reason) => self.look.changed(name, &reason),
            Ended::Stays(reason) => self.look.stays(name, &reason),
            Ended::Added(file) => drop(state.added.insert(name.clone(), file)),
        }
        Ok(())
    }

    fn proceed(&self, state: &mut State, all: bool) -> Result<()> {
        for (name, ended) in state.removal.proceed(all)? {
            self.end(state, &name, ended)?;
        }
        Ok(())
    }

    /// Ends the removal of files that are safe. Called when no more is pulled.
    pub fn finish_removal(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.proceed(&mut state, true)?;
        self.tell(&state);
        Ok(())
    }

    /// Whether all that is left was given up for this run.
    fn is_over(&self, state: &State) -> bool {
        let is_parked = |name: &Name| self.control.is_parked(name);
        state.removal.is_idle() && state.added.is_empty() && state.open.keys().all(is_parked) && !self.look.any_left()
    }
}

impl State {
    fn is_open_for_writing(&mut self, identity: &Identity) -> bool {
        let scan = self.scan.take().filter(|(at, _)| at.elapsed() < SCAN_LIFETIME);
        let (_, files) = self.scan.insert(scan.unwrap_or_else(|| (Instant::now(), open_for_writing())));
        files.contains(&(identity.device, identity.inode))
    }
}

impl Source for Directory {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        if self.control.stopped() {
            return Ok(Pulled::Stop);
        }
        let drains = self.control.drains();
        let mut state = self.state.lock();
        self.proceed(&mut state, false)?;
        self.find_added(&mut state);
        if state.queue.is_empty() && state.reading.is_none() {
            self.find(&mut state)?;
        }
        let (mut pulled, mut bytes) = (Vec::new(), 0);
        while bytes < budget
            && let Some(entry) = self.part(&mut state)?
        {
            bytes += entry.request.bytes.len().max(1);
            pulled.push(entry);
        }
        Ok(match pulled.is_empty() {
            false => Pulled::Moves(pulled),
            true if drains && self.is_over(&state) => Pulled::End,
            true => Pulled::Nothing,
        })
    }

    fn wait(&self, limit: Duration) {
        let is_idle = self.state.lock().removal.is_idle();
        self.look.wait(if is_idle { limit } else { limit.min(CLOCK_TICK) });
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        let mut state = self.state.lock();
        for entry in moves {
            let name = entry.request.destination;
            let counts = |open: &&mut Open| open.identity.is_some() && open.first <= entry.position.0;
            let Some(open) = state.open.get_mut(&name).filter(counts) else { continue };
            open.left = open.left.saturating_sub(1);
            if open.left == 0 {
                self.safe(&mut state, &name)?;
            }
        }
        self.proceed(&mut state, false)
    }

    fn again(&self, name: &Name) -> Result<()> {
        let mut state = self.state.lock();
        if !state.open.contains_key(name) {
            return Ok(());
        }
        state.queue.retain(|queued| queued != name);
        if state.reading.as_ref().is_some_and(|reading| reading.name == *name) {
            state.reading = None;
        }
        // Nothing of what was pulled of it is finished any more.
        state.open.insert(name.clone(), Open::default());
        state.queue.push_front(name.clone());
        Ok(())
    }
}
