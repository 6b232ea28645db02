//! Finds the complete files of a directory.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rustix_futex_sync::{Condvar, Mutex};
use walkdir::{DirEntry, WalkDir};

use super::Identity;
use crate::request::{Name, check_destination};
use crate::{Error, Result};

/// The interval between walks over all files, which are needed because the system may lose events.
const WALK_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time between two walks.
const MIN_WALK_INTERVAL: Duration = Duration::from_millis(10);
/// A stream that drains waits for a file to become complete for at most this multiple of the file's settle time.
const PATIENCE_FACTOR: u32 = 3;
/// A stream that drains does not wait for a file that has changed more often than this during its delivery.
const MAX_CHANGES: u32 = 3;

/// A scanner of one directory.
pub struct DirectoryScanner {
    root: PathBuf,
    settle: SettleRule,
    patience: Duration,
    told: Arc<ChangeEvents>,
    /// Taken before `ChangeEvents::closed`.
    state: Mutex<State>,
    /// The receiver of change events; `None` if the system does not support them. A leaf.
    watcher: Mutex<Option<RecommendedWatcher>>,
}

/// The settle time of files: how long a file must stay unchanged.
#[derive(Clone, Copy, Debug)]
pub struct SettleRule {
    /// A file that has not changed for this time may be complete.
    pub time: Duration,
    /// Whether the time also applies to files that were seen to be closed or renamed into place.
    pub always: bool,
}

/// The events received from the system.
#[derive(Default)]
struct ChangeEvents {
    /// The paths of closed and renamed files. The system's watcher adds to them. A leaf, held for one look or change.
    closed: Mutex<VecDeque<PathBuf>>,
    some: Condvar,
}

#[derive(Default)]
struct State {
    walked: Option<Instant>,
    /// The start of the period in which the directory cannot be read.
    away: Option<Instant>,
    /// Files that are incomplete or blocked.
    waiting: HashMap<Name, Waiting>,
    /// The number of changes of each file during its delivery.
    changes: HashMap<Name, u32>,
}

/// A file that is not taken yet.
#[derive(Clone)]
struct Waiting {
    identity: Option<Identity>,
    /// When it was first seen in its present state.
    since: Instant,
    /// When it was first seen.
    first: Instant,
    /// Its settle time.
    settle: Duration,
    /// The reason why it is not taken, unless it is merely too young.
    reason: Option<String>,
    /// Whether only a change can make the file ready.
    stays: bool,
}

impl Waiting {
    fn new(identity: Option<Identity>, settle: Duration) -> Waiting {
        let now = Instant::now();
        Waiting { identity, since: now, first: now, settle, reason: None, stays: false }
    }

    /// Whether a stream that drains stops waiting for it.
    fn is_given_up(&self) -> bool {
        self.stays || self.first.elapsed() >= self.settle * PATIENCE_FACTOR
    }
}

/// A file that was not taken, and the reason.
pub struct Untaken {
    pub name: Name,
    pub bytes: u64,
    /// `None` if the file is only too young.
    pub reason: Option<String>,
}

impl DirectoryScanner {
    /// Watches the directory, which may be unreadable for at most `patience`.
    pub fn new(root: &Path, settle: SettleRule, patience: Duration) -> DirectoryScanner {
        let told = Arc::new(ChangeEvents::default());
        let watcher = Mutex::new(watch(root, &told));
        let settle = SettleRule { time: settle.time.max(MIN_WALK_INTERVAL), ..settle };
        DirectoryScanner { root: root.to_owned(), settle, patience, told, state: Mutex::default(), watcher }
    }

    /// Watches the directory that the path leads to now, and looks for all its files again.
    pub fn watch_again(&self) {
        // Watched before the walk, so that no file is missed in between.
        *self.watcher.lock() = watch(&self.root, &self.told);
        self.state.lock().walked = None;
    }

    /// Returns the files that may have become complete, except those that are `known`.
    pub fn complete(&self, known: impl Fn(&Name) -> bool) -> Result<Vec<Name>> {
        let mut state = self.state.lock();
        let closed = std::mem::take(&mut *self.told.closed.lock());
        let mut complete = Vec::new();
        for path in closed {
            // Do not follow symbolic links.
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if !metadata.is_file() {
                continue;
            }
            let Some(name) = self.name(&mut state, &path, &metadata).filter(|name| !known(name)) else { continue };
            if self.settle.always {
                let waiting = Waiting::new(Some(Identity::of(&metadata)), self.settle.time);
                state.waiting.entry(name).or_insert(waiting);
            } else if !complete.contains(&name) {
                complete.push(name);
            }
        }
        let often = match state.waiting.values().all(|waiting| waiting.stays) {
            true => WALK_INTERVAL,
            false => self.settle.time.min(WALK_INTERVAL),
        };
        if state.walked.is_none_or(|at| at.elapsed() >= often) {
            self.walk(&mut state, &known, &mut complete)?;
            state.walked = Some(Instant::now());
        }
        Ok(complete)
    }

    fn walk(&self, state: &mut State, known: impl Fn(&Name) -> bool, complete: &mut Vec<Name>) -> Result<()> {
        if let Err(e) = std::fs::read_dir(&self.root) {
            let since = *state.away.get_or_insert_with(Instant::now);
            return match since.elapsed() < self.patience {
                true => Ok(()),
                false => Err(Error::io(format!("reading {}", self.root.display()))(e)),
            };
        }
        state.away = None;
        let before = std::mem::take(&mut state.waiting);
        // The walk does not find those with hidden names, which only the removals name.
        let is_hidden =
            |name: &Name| name.rsplit(|byte| *byte == b'/').next().is_some_and(|last| last.starts_with(b"."));
        let is_there = |name: &Name| self.root.join(OsStr::from_bytes(name)).symlink_metadata().is_ok();
        let hidden = before.iter().filter(|(name, _)| is_hidden(name) && is_there(name));
        state.waiting.extend(hidden.map(|(name, waiting)| (name.clone(), waiting.clone())));
        let shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().as_bytes().starts_with(b".");
        for entry in WalkDir::new(&self.root).sort_by_file_name().into_iter().filter_entry(shown) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    self.note_unreadable(state, &e);
                    continue;
                }
            };
            let Ok(metadata) = entry.metadata() else { continue };
            let name = if metadata.is_file() { self.name(state, entry.path(), &metadata) } else { None };
            let Some(name) = name.filter(|name| !known(name) && !complete.contains(name)) else { continue };
            let now = Some(Identity::of(&metadata));
            let mut waiting = before.get(&name).cloned().unwrap_or_else(|| Waiting::new(now, self.settle.time));
            if waiting.identity != now {
                waiting = Waiting { first: waiting.first, ..Waiting::new(now, self.settle.time) };
            }
            // A file unchanged for long needs no second look.
            let age = now.map_or(Duration::ZERO, |identity| identity.age());
            let is_old = waiting.reason.is_none() && age >= waiting.settle;
            if !waiting.stays && (is_old || waiting.since.elapsed() >= waiting.settle) {
                complete.push(name.clone());
            }
            state.waiting.insert(name, waiting);
        }
        Ok(())
    }

    /// Handles a folder that is unreadable or was removed during the walk.
    fn note_unreadable(&self, state: &mut State, error: &walkdir::Error) {
        let gone = error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        let below = error.path().and_then(|path| path.strip_prefix(&self.root).ok());
        if let Some(below) = below.filter(|_| !gone) {
            let reason = format!("it cannot be looked into: {error}");
            let waiting = Waiting { reason: Some(reason), stays: true, ..Waiting::new(None, self.settle.time) };
            state.waiting.insert(below.as_os_str().as_bytes().into(), waiting);
        }
    }

    /// Returns the path below the directory; `None` if it is hidden or not a valid name of a destination.
    fn name(&self, state: &mut State, path: &Path, metadata: &std::fs::Metadata) -> Option<Name> {
        let below = path.strip_prefix(&self.root).ok()?;
        if below.components().any(|part| part.as_os_str().as_bytes().starts_with(b".")) {
            return None;
        }
        let name = below.as_os_str().as_bytes();
        match check_destination(name) {
            Ok(()) => Some(name.into()),
            Err(error) => {
                let identity = Some(Identity::of(metadata));
                let waiting = Waiting::new(identity, self.settle.time);
                let waiting = Waiting { reason: Some(error.to_string()), stays: true, ..waiting };
                state.waiting.insert(name.into(), waiting);
                None
            }
        }
    }

    /// Forgets a file that was taken.
    pub fn taken(&self, name: &Name) {
        self.state.lock().waiting.remove(name);
    }

    /// Postpones an incomplete file by `settle`, for this reason.
    pub fn later(&self, name: &Name, reason: &str, settle: Duration) {
        self.put_off(name, reason, settle, false);
    }

    /// Blocks a file until it changes, for this reason.
    pub fn stays(&self, name: &Name, reason: &str) {
        self.put_off(name, reason, self.settle.time, true);
    }

    fn put_off(&self, name: &Name, reason: &str, settle: Duration, stays: bool) {
        let path = self.root.join(OsStr::from_bytes(name));
        let identity = path.symlink_metadata().ok().map(|metadata| Identity::of(&metadata));
        // After the file was looked at, so that no I/O is done under it.
        let mut state = self.state.lock();
        let new = Waiting::new(identity, settle);
        let first = state.waiting.get(name).map_or(new.first, |waiting| waiting.first);
        state.waiting.insert(name.clone(), Waiting { first, reason: Some(reason.into()), stays, ..new });
    }

    /// Notes that a file changed during its delivery.
    pub fn changed(&self, name: &Name, reason: &str) {
        self.put_off(name, reason, self.settle.time, false);
        *self.state.lock().changes.entry(name.clone()).or_default() += 1;
    }

    /// Whether a stream that drains still waits for files to become complete.
    pub fn any_left(&self) -> bool {
        // `closed` is taken under it below, in the order that the field says.
        let state = self.state.lock();
        let changes = |name: &Name| state.changes.get(name).copied().unwrap_or(0);
        let is_waited_for = |(name, waiting): (&Name, &Waiting)| !waiting.is_given_up() && changes(name) < MAX_CHANGES;
        // A file whose event is not taken yet is left as well.
        state.waiting.iter().any(is_waited_for) || !self.told.closed.lock().is_empty() || state.walked.is_none()
    }

    /// Returns the files that are not taken.
    pub fn untaken(&self) -> Vec<Untaken> {
        let state = self.state.lock();
        let untaken = |(name, waiting): (&Name, &Waiting)| Untaken {
            name: name.clone(),
            bytes: waiting.identity.map_or(0, |identity| identity.size),
            reason: waiting.reason.clone(),
        };
        state.waiting.iter().map(untaken).collect()
    }

    /// Waits for an event, for at most `limit`.
    pub fn wait(&self, limit: Duration) {
        let closed = self.told.closed.lock();
        if closed.is_empty() {
            drop(self.told.some.wait_timeout(closed, limit));
        }
    }
}

/// Receives the change events of a directory. `None`, with a warning, if the system does not support them.
fn watch(root: &Path, told: &Arc<ChangeEvents>) -> Option<RecommendedWatcher> {
    let tell = told.clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        let complete = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let renamed = [RenameMode::To, RenameMode::Both].map(|mode| EventKind::Modify(ModifyKind::Name(mode)));
        if event.kind == complete || renamed.contains(&event.kind) {
            // Never held for long by others, so that the watcher does not lose events.
            tell.closed.lock().extend(event.paths);
            tell.some.notify_all();
        }
    });
    let watch = watcher.and_then(|mut watcher| {
        watcher.watch(root, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    if let Err(error) = &watch {
        tracing::warn!(%error, root = %root.display(), "files are looked for every two seconds only");
    }
    watch.ok()
}
