//! A directory of files that grow, such as logs: what is added to each is delivered behind what was delivered of it. No
//! file is removed or changed.
//!
//! A file is known by its device, its number and its time of birth, so it stays the same one when it is renamed. All that was ever added to
//! it goes to the name under which it was first seen. Where another file takes that name, as when a log is rotated, its
//! bytes go behind. How far each file is delivered stands in the mark of its destination, in the commit that tells that the bytes are there.

mod followed;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use walkdir::{DirEntry, WalkDir};

use crate::control::{Control, Left};
use crate::entry::{Entry, Position};
use crate::ledger::Ledger;
use crate::owners::Claims;
use crate::request::{Name, check_destination};
use crate::{Error, Pulled, Result, Source};
use followed::{Followed, Id, head, id, lane, open, parse_lane};

/// How often all files are looked at, at most.
const WALK_INTERVAL: Duration = Duration::from_millis(100);
/// Looking takes this share of the time, at most.
const WALK_SHARE: u32 = 10;
/// Files that are kept open, so that what was added to them just before they were removed can still be read.
const MAX_OPEN_FILES: usize = 256;
/// Files that a destination remembers, at least, though they are not there any more.
const MAX_GONE_FILES: usize = 64;
/// A directory whose files are followed.
pub struct Tail {
    root: PathBuf,
    number: usize,
    ledger: Arc<Ledger>,
    claims: Claims,
    control: Arc<Control>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<Id, Followed>,
    walked: Option<Instant>,
    /// Files that cannot be followed, and why.
    stays: Vec<(String, String)>,
    /// Destinations that were claimed, which is not recorded yet.
    claimed: Vec<Name>,
    /// How long the last walk took.
    walk_time: Duration,
    /// Whether all that was seen to be there has been pulled.
    is_read: bool,
    next: u64,
}

impl Tail {
    /// The directory `root` as source number `number`.
    pub fn new(
        root: &Path,
        number: usize,
        ledger: Arc<Ledger>,
        claims: Claims,
        control: &Arc<Control>,
    ) -> Result<Tail> {
        let (root, control) = (root.to_owned(), control.clone());
        let tail = Tail { root, number, ledger, claims, control, state: Mutex::default() };
        let mut state = tail.state.lock();
        let known = tail.recorded()?;
        tail.walk(&mut state, &known)?;
        tail.forget_gone(&state)?;
        drop(state);
        Ok(tail)
    }

    /// How far files were delivered by earlier runs: the destination, how often the file was emptied, and how far the last of these is.
    fn recorded(&self) -> Result<HashMap<Id, (Name, u64, Position)>> {
        let mut known: HashMap<Id, (Name, u64, Position)> = HashMap::new();
        for (name, mark) in self.ledger.all()? {
            for (id, generation, at) in mark.done.iter().filter_map(|(lane, at)| {
                let (id, generation) = parse_lane(lane)?;
                Some((id, generation, *at))
            }) {
                if known.get(&id).is_none_or(|(_, newest, _)| *newest <= generation) {
                    known.insert(id, (name.as_slice().into(), generation, at));
                }
            }
        }
        Ok(known)
    }

    /// Keeps the marks of destinations small that many files went to.
    fn forget_gone(&self, state: &State) -> Result<()> {
        for (name, mut mark) in self.ledger.all()? {
            let is_gone = |lane: &String| parse_lane(lane).is_some_and(|(id, _)| !state.files.contains_key(&id));
            if mark.done.keys().filter(|lane| is_gone(lane)).count() > MAX_GONE_FILES {
                mark.done.retain(|lane, _| !is_gone(lane));
                self.ledger.commit(&name.as_slice().into(), mark)?;
            }
        }
        Ok(())
    }

    /// Looks at all files.
    fn walk(&self, state: &mut State, known: &HashMap<Id, (Name, u64, Position)>) -> Result<()> {
        let begun = Instant::now();
        fs::read_dir(&self.root).map_err(Error::io(format!("reading {}", self.root.display())))?;
        let mut there = HashSet::new();
        let mut stays = Vec::new();
        let shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().as_bytes().starts_with(b".");
        for entry in WalkDir::new(&self.root).sort_by_file_name().into_iter().filter_entry(shown).flatten() {
            let Some(metadata) = entry.metadata().ok().filter(fs::Metadata::is_file) else { continue };
            let id = id(&metadata);
            // Of several names of one file, the first.
            if !there.insert(id) {
                continue;
            }
            if let Err(reason) = self.see(state, known, id, entry.path(), metadata.size()) {
                stays.push((entry.path().display().to_string(), reason));
            }
        }
        for (id, followed) in state.files.iter_mut().filter(|(id, _)| !there.contains(id)) {
            // Removed: what was added before is read through the descriptor.
            let size = followed.file.as_ref().and_then(|file| Some(file.metadata().ok()?.size()));
            followed.size = size.unwrap_or(followed.offset);
            if size.is_none() {
                tracing::debug!(inode = id.1, "a followed file is gone");
            }
        }
        state.files.retain(|id, followed| there.contains(id) || followed.offset < followed.size);
        state.stays = stays;
        self.tell(state);
        (state.walked, state.walk_time) = (Some(Instant::now()), begun.elapsed());
        state.is_read = false;
        Ok(())
    }

    /// Tells others what is left.
    fn tell(&self, state: &State) {
        let mut left = Left { stays: state.stays.clone(), ..Left::default() };
        for followed in state.files.values() {
            left.files += u64::from(followed.offset < followed.size);
            left.bytes += followed.size - followed.offset.min(followed.size);
        }
        self.control.tell_left(self.number, left);
    }

    /// A file is there. Where it cannot be followed, why.
    fn see(
        &self,
        state: &mut State,
        known: &HashMap<Id, (Name, u64, Position)>,
        id: Id,
        path: &Path,
        size: u64,
    ) -> std::result::Result<(), String> {
        let name = path.strip_prefix(&self.root).map_err(|e| e.to_string())?.as_os_str().as_bytes();
        check_destination(name).map_err(|e| e.to_string())?;
        if let Some(followed) = state.files.get_mut(&id) {
            followed.path = path.to_owned();
            let grown = size > followed.size;
            followed.size = size;
            let is_other = size < followed.offset || (grown && followed.is_refilled(id, &self.ledger));
            if is_other {
                (followed.generation, followed.offset) = (followed.generation + 1, 0);
            }
            return Ok(());
        }
        let file = open(path).map_err(|e| format!("it cannot be read: {e}"))?;
        let (mut destination, mut generation, mut offset) = (Name::from(name), 0, 0);
        if let Some((recorded, newest, at)) = known.get(&id) {
            (destination, generation, offset) = (recorded.clone(), *newest, at.0);
            if size < offset || head(&file, offset).is_ok_and(|head| head != at.1) {
                (generation, offset) = (generation + 1, 0);
            }
        }
        let refused = self.claims.claim(&destination).map_err(|e| e.to_string())?;
        refused.map_or(Ok(()), Err)?;
        state.claimed.push(destination.clone());
        let file = (state.files.values().filter(|one| one.file.is_some()).count() < MAX_OPEN_FILES).then_some(file);
        let followed = Followed { destination, path: path.to_owned(), generation, offset, size, file };
        state.files.insert(id, followed);
        Ok(())
    }

    /// The next part of each file that has grown, of `budget` bytes in all.
    fn parts(&self, state: &mut State, budget: usize) -> Vec<Entry> {
        // A file that was renamed is read to its end before the one that has taken its name.
        let is_renamed = |one: &Followed| {
            one.path.strip_prefix(&self.root).is_ok_and(|path| path.as_os_str().as_bytes() != &*one.destination)
        };
        let grown = state.files.iter().filter(|(_, one)| one.offset < one.size);
        let mut order: BTreeMap<(Name, bool, Id), ()> =
            grown.map(|(id, one)| ((one.destination.clone(), !is_renamed(one), *id), ())).collect();
        let mut entries = Vec::new();
        let mut bytes = 0;
        while let Some(((_, _, id), ())) = order.pop_first() {
            let State { files, next, .. } = &mut *state;
            let Some(followed) = files.get_mut(&id) else { continue };
            while followed.offset < followed.size && bytes < budget {
                let Some(entry) = followed.part(id, self.number, next) else {
                    // It is gone or has become shorter: the next walk tells.
                    followed.size = followed.offset;
                    break;
                };
                bytes += entry.request.bytes.len();
                entries.push(entry);
            }
        }
        entries
    }
}

impl Source for Tail {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        if self.control.stopped() {
            return Ok(Pulled::Stop);
        }
        let drains = self.control.drains();
        let mut state = self.state.lock();
        let pause = WALK_INTERVAL.max(state.walk_time * WALK_SHARE);
        let is_due = state.walked.is_none_or(|at| at.elapsed() >= pause);
        if is_due && state.is_read {
            self.walk(&mut state, &HashMap::new())?;
        }
        // Not when they were claimed: the stream's other directories were not known then.
        for destination in std::mem::take(&mut state.claimed) {
            self.claims.record_now(&destination)?;
        }
        let entries = self.parts(&mut state, budget);
        if !entries.is_empty() {
            return Ok(Pulled::Moves(entries));
        }
        state.is_read = true;
        self.tell(&state);
        Ok(if drains { Pulled::End } else { Pulled::Nothing })
    }

    fn wait(&self, limit: Duration) {
        std::thread::sleep(limit.min(WALK_INTERVAL));
    }

    fn finish(&self, _: Vec<Entry>) -> Result<()> {
        // How far a file is delivered was noted with its destination.
        Ok(())
    }

    fn again(&self, destination: &Name) -> Result<()> {
        let mut state = self.state.lock();
        for (id, followed) in state.files.iter_mut().filter(|(_, followed)| followed.destination == *destination) {
            let done = self.ledger.done(destination, &lane(*id, followed.generation))?;
            followed.offset = done.map_or(0, |done| done.0);
        }
        Ok(())
    }
}
