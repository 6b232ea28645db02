//! A watched directory: what is dropped there flows on under the same names, and is removed once it is safe.
//!
//! A file is taken when nobody has it open for writing and it was closed or renamed into its place, or has not changed for a while. It is
//! pulled in parts, each for its own offset, so that it may be begun with again at any time. When all of it is durable
//! where it went it is removed ([`removal`]). Files whose names begin with a dot are not taken: that is what those that are not complete are
//! called.

mod added;
mod folder;
mod identity;
mod look;
mod opening;
mod reading;
mod record;
mod removal;
mod watch;
mod writers;

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::Mutex;
use terrace::Store;

use crate::control::{Control, Left};
use crate::destinations::Destination;
use crate::entry::{Entry, Position};
use crate::owners::Claims;
use crate::request::Name;
use crate::{Error, Pulled, Result, Source};
use added::Added;
use folder::Folder;
use identity::Identity;
use look::{Look, Settle};
use opening::{Opening, Unready};
use reading::{Reading, parts};
use record::Records;
pub use record::{Tally, all_tallies};
use removal::{Ended, Removal};
pub use watch::Watch;

/// How long files are left alone of which nobody is seen to close them.
const USUAL_SETTLE_TIME: Duration = Duration::from_secs(1);
/// Two changes within this time may leave the same time of change: it is longer than any clock tick of the system.
const CLOCK_TICK: Duration = Duration::from_millis(20);

/// A directory as a source.
pub struct Directory {
    root: PathBuf,
    claims: Arc<Claims>,
    opening: Opening,
    number: usize,
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
    added: Added,
    removal: Removal,
    next: u64,
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

impl Directory {
    /// The directory of `claims` as source number `number` of stream `stream`, whose bytes go to `destination`.
    pub fn new(
        store: &Store,
        stream: &str,
        claims: Claims,
        watch: &Watch,
        number: usize,
        destination: &Arc<dyn Destination>,
        control: &Arc<Control>,
    ) -> Result<Directory> {
        let (root, claims) = (claims.root().to_owned(), Arc::new(claims));
        let folder = Folder::open(&root).map_err(Error::io(format!("opening {}", root.display())))?;
        let folder = Arc::new(folder);
        let settle = Settle { time: watch.settle.unwrap_or(USUAL_SETTLE_TIME), always: watch.settle.is_some() };
        let records = Records::new(store, stream, &claims);
        let mut removal = Removal::new(&root, folder.clone(), records, destination.clone(), settle.time);
        let stays = removal.resume()?;
        let look = Look::new(&root, settle, watch.patience)?;
        stays.iter().for_each(|(name, reason)| look.stays(name, reason));
        let state = State {
            queue: VecDeque::new(),
            reading: None,
            open: BTreeMap::new(),
            added: Added::default(),
            removal,
            next: 0,
        };
        let opening = Opening::new(&root, folder, watch.settle);
        let (control, state) = (control.clone(), Mutex::new(state));
        Ok(Directory { root, claims, opening, number, control, look, state })
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        self.root.join(std::ffi::OsStr::from_bytes(name))
    }

    /// Begins with a file, from its first byte. One that is not to be taken now is passed over.
    fn begin(&self, state: &mut State, name: &Name) -> Result<()> {
        let opened = match state.added.get(name) {
            Some(file) => Ok(self.opening.open_again(name, file)?),
            None => self.opening.open(name)?,
        };
        // Only once it is opened: a file that cannot be taken keeps nobody from its name.
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
                        self.look.taken(name);
                    }
                    Unready::Later(reason, settle) => self.look.later(name, &reason, settle),
                    Unready::Stays(reason) => self.look.stays(name, &reason),
                }
                return Ok(());
            }
        };
        self.look.taken(name);
        let identity = Identity::of(&metadata);
        let first = state.next + 1;
        state.open.insert(name.clone(), Open { identity: Some(identity), left: parts(identity.size), first });
        state.reading = Some(Reading::new(name, file, &metadata));
        Ok(())
    }

    /// Queues files that may be complete.
    fn find(&self, state: &mut State) -> Result<()> {
        let known =
            |name: &Name| state.open.contains_key(name) || state.added.contains(name) || state.removal.is_leaving(name);
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
        loop {
            let Some(reading) = state.reading.as_mut() else {
                let Some(name) = state.queue.pop_front() else { return Ok(None) };
                self.begin(state, &name)?;
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
                    self.look.stays(&name, &format!("it cannot be read: {e}"));
                }
            }
        }
    }

    /// All of a file is durable where it went.
    fn safe(&self, state: &mut State, name: &Name) -> Result<()> {
        let Some(identity) = state.open.remove(name).and_then(|open| open.identity) else { return Ok(()) };
        if state.added.contains(name) {
            return self.safe_added(state, name, identity);
        }
        match state.removal.begin(name, identity)? {
            Some(ended) => self.end(state, name, ended),
            None => Ok(()),
        }
    }

    /// All of a file without a name is durable where it went.
    fn safe_added(&self, state: &mut State, name: &Name, identity: Identity) -> Result<()> {
        let ended = state.added.end(name, &identity);
        if ended.map_err(Error::io(format!("looking at {}", self.path(name).display())))? {
            self.claims.release(name);
            self.control.tell_file_done();
            state.removal.finish(name, identity.size)?;
        }
        Ok(())
    }

    /// Queues files without a name that nobody writes to any more.
    fn find_added(&self, state: &mut State) {
        let State { added, open, queue, .. } = state;
        for name in added.complete(|name| open.contains_key(name)) {
            open.insert(name.clone(), Open::default());
            queue.push_back(name);
        }
    }

    /// A file's removal has ended.
    fn end(&self, state: &mut State, name: &Name, ended: Ended) -> Result<()> {
        match ended {
            Ended::Removed => {
                self.claims.release(name);
                self.control.tell_file_done();
            }
            Ended::Changed(reason) => self.look.changed(name, &reason),
            Ended::Stays(reason) => self.look.stays(name, &reason),
            Ended::Added(file) => state.added.insert(name, file),
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
