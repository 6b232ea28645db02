//! A watched directory as a source: its files are delivered under their names and removed once they are durable at the destination.
//!
//! A file is taken when no process has it open for writing and it was closed, renamed into place, or unchanged for the settle time. It is
//! pulled in parts, each with its own offset, so that its delivery can restart at any time. When the whole file is durable at the
//! destination it is removed ([`removal`]). Files whose names begin with a dot are not taken: by convention these are incomplete.

mod added;
mod folder;
mod identity;
mod opening;
mod reading;
mod record;
mod removal;
mod scan;
mod watch;
mod writers;

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace::Store;

use crate::control::{Control, Left};
use crate::destinations::Destination;
use crate::entry::{Entry, FolderId, Position};
use crate::owners::Claims;
use crate::places::PlacesCheck;
use crate::request::Name;
use crate::{Error, Pulled, Result, Source};
use added::Added;
use folder::Folder;
use identity::Identity;
use opening::{Opening, Unready};
use reading::{Reading, parts};
use record::Records;
pub use record::{Tally, all_tallies};
use removal::{Delivered, Ended, Removal};
use scan::{DirectoryScanner, SettleRule};
pub use watch::Watch;

/// The settle time of files that are not seen to be closed.
const USUAL_SETTLE_TIME: Duration = Duration::from_secs(1);
/// Two changes within this time may have the same timestamp. It is longer than any clock tick of the system.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// A directory as a source.
pub struct Directory {
    root: PathBuf,
    claims: Arc<Claims>,
    opening: Opening,
    number: usize,
    control: Arc<Control>,
    scanner: DirectoryScanner,
    /// It must pass before the path is followed to another directory.
    check: OnceLock<PlacesCheck>,
    /// The files that are read, and those whose removal has begun. Held during whole steps of `pull` and `finish`, with I/O, so
    /// that no file is read or removed by two threads. Taken before the scanner's locks.
    state: Mutex<State>,
}

struct State {
    /// The directory that the path has last led to.
    folder: Arc<Folder>,
    /// Files that wait to be pulled.
    queue: VecDeque<Name>,
    /// The file that is being pulled.
    reading: Option<Reading>,
    /// Files that are queued or partly or completely pulled, and not done.
    open: BTreeMap<Name, Open>,
    /// Unlinked files with bytes that were added at the last moment.
    added: Added,
    removal: Removal,
    next: u64,
}

#[derive(Default)]
struct Open {
    /// The state of the file when it was opened, and the directory that held it; `None` if the file is only queued.
    taken: Option<(Identity, Arc<Folder>)>,
    /// The number of its pending parts.
    left: u64,
    /// The number of its first part. Parts with lower numbers belong to an earlier delivery attempt and are ignored.
    first: u64,
}

impl Directory {
    /// Creates the source number `number` of stream `stream`, which pulls the directory of `claims` to `destination`.
    pub fn new(
        store: &Store,
        stream: &str,
        claims: Claims,
        watch: &Watch,
        number: usize,
        destination: &Arc<dyn Destination>,
        control: &Arc<Control>,
    ) -> Result<Directory> {
        let (root, claims) = (claims.path().to_owned(), Arc::new(claims));
        let folder = Folder::open(&root).map_err(Error::io(format!("opening {}", root.display())))?;
        let folder = Arc::new(folder);
        let settle = SettleRule { time: watch.settle.unwrap_or(USUAL_SETTLE_TIME), always: watch.settle.is_some() };
        let records = Records::new(store, stream, &claims);
        let mut removal = Removal::new(&root, records, destination.clone(), settle.time);
        let stays = removal.resume(&folder)?;
        let scanner = DirectoryScanner::new(&root, settle, watch.patience);
        stays.iter().for_each(|(name, reason)| scanner.stays(name, reason));
        let state = State {
            folder,
            queue: VecDeque::new(),
            reading: None,
            open: BTreeMap::new(),
            added: Added::default(),
            removal,
            next: 0,
        };
        let opening = Opening::new(&root, watch.settle);
        let (control, state) = (control.clone(), Mutex::new(state));
        Ok(Directory { root, claims, opening, number, control, scanner, check: OnceLock::new(), state })
    }

    /// Sets a check that must pass before the path is followed to another directory.
    pub fn set_check(&self, check: PlacesCheck) {
        self.check.get_or_init(|| check);
    }

    /// Pulls the directory that the path leads to now, if it is another one. Files that were opened in the earlier one are delivered and
    /// removed there; its other files stay.
    fn follow_path(&self, state: &mut State) -> Result<()> {
        // Where the path leads to nothing, the walk waits and gives the error.
        if !matches!(state.folder.is_at(&self.root), Ok(false)) {
            return Ok(());
        }
        let Ok(folder) = Folder::open(&self.root) else { return Ok(()) };
        self.check.get().map_or(Ok(()), |check| check())?;
        tracing::warn!(
            "{} leads to another directory now: files are taken from there, and those left in the earlier one stay",
            self.root.display()
        );
        state.folder = Arc::new(folder);
        for name in state.queue.drain(..) {
            state.open.remove(&name);
        }
        self.scanner.watch_again();
        Ok(())
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.root.join(std::ffi::OsStr::from_bytes(name))
    }

    /// Starts to pull a file from its first byte, or skips it if it is not ready.
    fn start_file(&self, state: &mut State, name: &Name) -> Result<()> {
        let opened = match state.added.get(name) {
            Some(file) => Ok(self.opening.open_again(name, file)?),
            None => self.opening.open(&state.folder, name)?,
        };
        // Claim the name only after the file is open: a file that cannot be taken must not keep the name from others.
        let claimed = match opened {
            Ok(opened) => self.claims.claim(name)?.map_or(Ok(opened), |reason| Err(self.opening.later(reason))),
            Err(unready) => Err(unready),
        };
        let (file, metadata) = match claimed {
            Ok(opened) => opened,
            Err(unready) => {
                state.open.remove(name);
                match unready {
                    Unready::Gone => {
                        self.claims.release(name);
                        self.scanner.taken(name);
                    }
                    Unready::Later(reason, settle) => self.scanner.later(name, &reason, settle),
                    Unready::Stays(reason) => self.scanner.stays(name, &reason),
                }
                return Ok(());
            }
        };
        self.scanner.taken(name);
        let identity = Identity::of(&metadata);
        let first = state.next + 1;
        let taken = Some((identity, state.folder.clone()));
        state.open.insert(name.clone(), Open { taken, left: parts(identity.size), first });
        state.reading = Some(Reading::new(name, file, &metadata));
        Ok(())
    }

    /// Queues files that may be complete.
    fn queue_complete(&self, state: &mut State) -> Result<()> {
        let known =
            |name: &Name| state.open.contains_key(name) || state.added.contains(name) || state.removal.is_leaving(name);
        for name in self.scanner.complete(known)? {
            state.open.insert(name.clone(), Open::default());
            state.queue.push_back(name);
        }
        self.publish_remaining(state);
        Ok(())
    }

    /// Publishes the remaining files.
    fn publish_remaining(&self, state: &State) {
        let mut left = Left { files: state.open.len() as u64, ..Left::default() };
        left.bytes = state.open.values().filter_map(|open| Some(open.taken.as_ref()?.0.size)).sum();
        // A queued file may also be among the scanned ones; count it once.
        for untaken in self.scanner.untaken().into_iter().filter(|untaken| !state.open.contains_key(&untaken.name)) {
            left.files += 1;
            left.bytes += untaken.bytes;
            left.stays.extend(untaken.reason.map(|reason| (self.path(&untaken.name).display().to_string(), reason)));
        }
        left.stays.sort();
        self.control.set_left(self.number, left);
    }

    /// The time after which the first file in the queue can be read.
    fn waiting_time(&self, state: &State) -> Duration {
        let first = state.queue.front().filter(|_| state.reading.is_none());
        first.map_or(Duration::ZERO, |name| self.opening.waiting_time(name))
    }

    /// Reads the next part of the first file. Without `may_wait`, stops before a file that has just changed.
    fn next_part(&self, state: &mut State, may_wait: bool) -> Result<Option<Entry>> {
        loop {
            let Some(reading) = state.reading.as_mut() else {
                if !may_wait && !self.waiting_time(state).is_zero() {
                    return Ok(None);
                }
                let Some(name) = state.queue.pop_front() else { return Ok(None) };
                self.start_file(state, &name)?;
                continue;
            };
            let name = reading.name.clone();
            match reading.part() {
                Ok(request) => {
                    let facts = reading.facts.clone();
                    if request.ends {
                        state.reading = None;
                    }
                    state.next += 1;
                    let position = Position(state.next, 0);
                    return Ok(Some(Entry { request, source: self.number, position, file: Some(facts), lane: None }));
                }
                Err(e) => {
                    state.reading = None;
                    state.open.remove(&name);
                    self.scanner.stays(&name, &format!("it cannot be read: {e}"));
                }
            }
        }
    }

    /// Starts the removal of a file that is completely durable at its destination.
    fn start_removal(&self, state: &mut State, name: &Name, to: Option<FolderId>) -> Result<()> {
        let Some((identity, from)) = state.open.remove(name).and_then(|open| open.taken) else { return Ok(()) };
        if state.added.contains(name) {
            return self.complete_added(state, name, identity, to);
        }
        match state.removal.begin(name, Delivered { from, identity, to })? {
            Some(ended) => self.handle_removal_end(state, name, ended),
            None => Ok(()),
        }
    }

    /// Handles an unlinked file that is completely durable at its destination.
    fn complete_added(&self, state: &mut State, name: &Name, identity: Identity, to: Option<FolderId>) -> Result<()> {
        if state.removal.check_delivered(name, to)?.is_err() {
            // Only the descriptor leads to it: it is kept, and the file is delivered again.
            return Ok(());
        }
        let ended = state.added.end(name, &identity);
        if ended.map_err(Error::io(format!("looking at {}", self.path(name).display())))? {
            self.claims.release(name);
            self.control.add_file_done();
            state.removal.finish(name, identity.size)?;
        }
        Ok(())
    }

    /// Queues unlinked files that no process writes to any more.
    fn queue_added(&self, state: &mut State) {
        let State { added, open, queue, .. } = state;
        for name in added.complete(|name| open.contains_key(name)) {
            open.insert(name.clone(), Open::default());
            queue.push_back(name);
        }
    }

    /// Handles the end of a file's removal.
    fn handle_removal_end(&self, state: &mut State, name: &Name, ended: Ended) -> Result<()> {
        match ended {
            Ended::Removed => {
                self.claims.release(name);
                self.control.add_file_done();
            }
            Ended::Changed(reason) => self.scanner.changed(name, &reason),
            Ended::Stays(reason) => self.scanner.stays(name, &reason),
            Ended::Added(file) => state.added.insert(name, file),
        }
        Ok(())
    }

    fn proceed(&self, state: &mut State, all: bool) -> Result<()> {
        for (name, ended) in state.removal.proceed(all)? {
            self.handle_removal_end(state, &name, ended)?;
        }
        Ok(())
    }

    /// Completes the removal of delivered files. Call it after the last pull.
    pub fn finish_removal(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.proceed(&mut state, true)?;
        self.publish_remaining(&state);
        Ok(())
    }

    /// Whether this run has given up on all remaining files.
    fn is_over(&self, state: &State) -> bool {
        let is_parked = |name: &Name| self.control.is_parked(name);
        state.removal.is_idle()
            && state.added.is_empty()
            && state.open.keys().all(is_parked)
            && !self.scanner.any_left()
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
        let mut state = self.state.lock(); // see the field
        self.proceed(&mut state, false)?;
        self.follow_path(&mut state)?;
        self.queue_added(&mut state);
        if state.queue.is_empty() && state.reading.is_none() {
            self.queue_complete(&mut state)?;
        }
        let waiting_time = self.waiting_time(&state);
        if !waiting_time.is_zero() {
            // Without the lock, so that delivered files are removed meanwhile. If the queue changes, opening its first file waits.
            drop(state);
            std::thread::sleep(waiting_time);
            state = self.state.lock();
        }
        let (mut pulled, mut bytes) = (Vec::new(), 0);
        // Files that are read do not wait here for a younger one: where files keep coming, each would wait for all of a budget.
        while bytes < budget
            && let Some(entry) = self.next_part(&mut state, pulled.is_empty())?
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
        // Released before the wait, so that `finish` is not held up.
        let is_idle = self.state.lock().removal.is_idle();
        self.scanner.wait(if is_idle { limit } else { limit.min(CLOCK_TICK) });
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        let mut state = self.state.lock(); // see the field
        for entry in moves {
            let name = entry.request.destination;
            let counts = |open: &&mut Open| open.taken.is_some() && open.first <= entry.position.0;
            let Some(open) = state.open.get_mut(&name).filter(counts) else { continue };
            open.left = open.left.saturating_sub(1);
            if open.left == 0 {
                let to = entry.file.and_then(|file| file.delivered_to.get().copied());
                self.start_removal(&mut state, &name, to)?;
            }
        }
        self.proceed(&mut state, false)
    }

    fn again(&self, name: &Name) -> Result<()> {
        let mut state = self.state.lock(); // see the field
        if !state.open.contains_key(name) {
            return Ok(());
        }
        state.queue.retain(|queued| queued != name);
        if state.reading.as_ref().is_some_and(|reading| reading.name == *name) {
            state.reading = None;
        }
        // Discard the parts pulled so far: their completion no longer counts.
        state.open.insert(name.clone(), Open::default());
        state.queue.push_front(name.clone());
        Ok(())
    }
}
