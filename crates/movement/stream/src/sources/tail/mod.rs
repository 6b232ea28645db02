//! A directory of growing files, such as logs: the bytes added to each file are delivered behind those delivered before. No file is
//! removed or changed.
//!
//! A file is identified by its device, inode and time of birth, so a renamed file keeps its identity. All bytes ever added to it go to
//! the name under which it was first seen. If another file takes that name, as when a log is rotated, its bytes go behind those of the
//! first. The mark of the destination holds the progress of each file; the commit that records the delivered bytes updates it.

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

/// The shortest time between two walks over all files.
const WALK_INTERVAL: Duration = Duration::from_millis(100);
/// A walk takes at most one part in this many of the time.
const WALK_SHARE: u32 = 10;
/// The number of files that are kept open, so that bytes added just before a file's removal can still be read.
const MAX_OPEN_FILES: usize = 256;
/// The number of removed files that a destination's mark keeps at least.
const MAX_GONE_FILES: usize = 64;
/// A directory whose files are followed.
pub struct Tail {
    root: PathBuf,
    number: usize,
    ledger: Arc<Ledger>,
    claims: Claims,
    control: Arc<Control>,
    /// Held during a whole `pull`, with its reads, because the offsets of all files are in it. The ledger's lock is taken under it.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<Id, Followed>,
    walked: Option<Instant>,
    /// Files that cannot be followed, and the reasons.
    stays: Vec<(String, String)>,
    /// Destinations that are claimed without a durable record yet.
    claimed: Vec<Name>,
    /// The duration of the last walk.
    walk_time: Duration,
    /// Whether all bytes that the last walk saw have been pulled.
    is_read: bool,
    next: u64,
}

impl Tail {
    /// Follows the directory of `claims` as source number `number`.
    pub fn new(number: usize, ledger: Arc<Ledger>, claims: Claims, control: &Arc<Control>) -> Result<Tail> {
        let (root, control) = (claims.path().to_owned(), control.clone());
        let tail = Tail { root, number, ledger, claims, control, state: Mutex::default() };
        // Not shared yet: the lock is free.
        let mut state = tail.state.lock();
        let known = tail.recorded()?;
        tail.walk(&mut state, &known)?;
        tail.forget_gone(&state)?;
        drop(state);
        Ok(tail)
    }

    /// Returns the progress of files in earlier runs: the destination, the number of truncations, and the position after the last of
    /// these.
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

    /// Bounds the marks of destinations that received many files.
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

    /// Walks over all files.
    fn walk(&self, state: &mut State, known: &HashMap<Id, (Name, u64, Position)>) -> Result<()> {
        let begun = Instant::now();
        fs::read_dir(&self.root).map_err(Error::io(format!("reading {}", self.root.display())))?;
        let mut there = HashSet::new();
        let mut stays = Vec::new();
        let shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().as_bytes().starts_with(b".");
        for entry in WalkDir::new(&self.root).sort_by_file_name().into_iter().filter_entry(shown).flatten() {
            let Some(metadata) = entry.metadata().ok().filter(fs::Metadata::is_file) else { continue };
            let id = id(&metadata);
            // If a file has several names, use the first.
            if !there.insert(id) {
                continue;
            }
            if let Err(reason) = self.register_file(state, known, id, entry.path(), metadata.size()) {
                stays.push((entry.path().display().to_string(), reason));
            }
        }
        for (id, followed) in state.files.iter_mut().filter(|(id, _)| !there.contains(id)) {
            // The file was removed: read the bytes added before through the descriptor.
            let size = followed.file.as_ref().and_then(|file| Some(file.metadata().ok()?.size()));
            followed.size = size.unwrap_or(followed.offset);
            if size.is_none() {
                tracing::debug!(inode = id.1, "a followed file is gone");
            }
        }
        state.files.retain(|id, followed| there.contains(id) || followed.offset < followed.size);
        state.stays = stays;
        self.publish_remaining(state);
        (state.walked, state.walk_time) = (Some(Instant::now()), begun.elapsed());
        state.is_read = false;
        Ok(())
    }

    /// Publishes the remaining files.
    fn publish_remaining(&self, state: &State) {
        let mut left = Left { stays: state.stays.clone(), ..Left::default() };
        for followed in state.files.values() {
            left.files += u64::from(followed.offset < followed.size);
            left.bytes += followed.size - followed.offset.min(followed.size);
        }
        self.control.set_left(self.number, left);
    }

    /// Registers a file. Returns the reason if it cannot be followed.
    fn register_file(
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

    /// Returns the next part of each file that has grown, `budget` bytes in total.
    fn parts(&self, state: &mut State, budget: usize) -> Vec<Entry> {
        // Read a renamed file to its end before the file that took its name.
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
                    // The file was removed or truncated; the next walk handles it.
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
        let mut state = self.state.lock(); // see the field
        let pause = WALK_INTERVAL.max(state.walk_time * WALK_SHARE);
        let is_due = state.walked.is_none_or(|at| at.elapsed() >= pause);
        if is_due && state.is_read {
            self.walk(&mut state, &HashMap::new())?;
        }
        // Record ownership only now: when the files were claimed, the stream's other directories were not known yet.
        for destination in std::mem::take(&mut state.claimed) {
            self.claims.record_now(&destination)?;
        }
        let entries = self.parts(&mut state, budget);
        if !entries.is_empty() {
            return Ok(Pulled::Moves(entries));
        }
        state.is_read = true;
        self.publish_remaining(&state);
        Ok(if drains { Pulled::End } else { Pulled::Nothing })
    }

    fn wait(&self, limit: Duration) {
        std::thread::sleep(limit.min(WALK_INTERVAL));
    }

    fn finish(&self, _: Vec<Entry>) -> Result<()> {
        // The commit of the destination's mark recorded the progress of each file.
        Ok(())
    }

    fn again(&self, destination: &Name) -> Result<()> {
        let mut state = self.state.lock(); // see the field
        for (id, followed) in state.files.iter_mut().filter(|(_, followed)| followed.destination == *destination) {
            let done = self.ledger.done(destination, &lane(*id, followed.generation))?;
            followed.offset = done.map_or(0, |done| done.0);
        }
        Ok(())
    }
}
