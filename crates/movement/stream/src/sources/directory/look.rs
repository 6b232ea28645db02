//! Which files of a directory are complete.

use std::collections::{HashMap, VecDeque};
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

/// How often all files are looked at, whatever was told of them: the system may lose events.
const WALK_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time between two walks.
const MIN_WALK_INTERVAL: Duration = Duration::from_millis(10);
/// A stream that is to end waits for a file to become complete for so many times as long as it is to be left alone.
const PATIENCE_FACTOR: u32 = 3;
/// A file that has changed so often while it was delivered is not waited for by a stream that is to end.
const MAX_CHANGES: u32 = 3;

/// Looks at a directory.
pub struct Look {
    root: PathBuf,
    settle: Settle,
    patience: Duration,
    told: Arc<Told>,
    state: Mutex<State>,
    /// Tells of changes; none where the system cannot.
    _watcher: Option<RecommendedWatcher>,
}

/// How long files are left alone.
#[derive(Clone, Copy, Debug)]
pub struct Settle {
    /// A file that has not changed for so long may be complete.
    pub time: Duration,
    /// Whether that holds for files, too, that somebody was seen to close or to rename into place.
    pub always: bool,
}

/// What the system has told.
#[derive(Default)]
struct Told {
    closed: Mutex<VecDeque<PathBuf>>,
    some: Condvar,
}

#[derive(Default)]
struct State {
    walked: Option<Instant>,
    /// Since when the directory cannot be read.
    away: Option<Instant>,
    /// Files that are not complete, or not to be taken.
    waiting: HashMap<Name, Waiting>,
    /// How often files have changed while they were delivered.
    changes: HashMap<Name, u32>,
}

/// A file that is not taken.
#[derive(Clone)]
struct Waiting {
    identity: Option<Identity>,
    /// When it was first seen to be as it is.
    since: Instant,
    /// When it was first seen.
    first: Instant,
    /// How long it is left alone.
    settle: Duration,
    /// Why it is not taken, where that is more than its age.
    reason: Option<String>,
    /// Whether nothing but a change makes it worth another look.
    stays: bool,
}

impl Waiting {
    fn new(identity: Option<Identity>, settle: Duration) -> Waiting {
        let now = Instant::now();
        Waiting { identity, since: now, first: now, settle, reason: None, stays: false }
    }

    /// Whether a stream that is to end does not wait for it.
    fn is_given_up(&self) -> bool {
        self.stays || self.first.elapsed() >= self.settle * PATIENCE_FACTOR
    }
}

/// A file that was not taken, and why.
pub struct Untaken {
    pub name: Name,
    pub bytes: u64,
    /// None where it is only too young.
    pub reason: Option<String>,
}

impl Look {
    /// `patience`: how long the directory may be away.
    pub fn new(root: &Path, settle: Settle, patience: Duration) -> Result<Look> {
        let told = Arc::new(Told::default());
        let tell = told.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            let complete = EventKind::Access(AccessKind::Close(AccessMode::Write));
            let renamed = [RenameMode::To, RenameMode::Both].map(|mode| EventKind::Modify(ModifyKind::Name(mode)));
            if event.kind == complete || renamed.contains(&event.kind) {
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
        let settle = Settle { time: settle.time.max(MIN_WALK_INTERVAL), ..settle };
        Ok(Look { root: root.to_owned(), settle, patience, told, state: Mutex::default(), _watcher: watch.ok() })
    }

    /// The files that may have become complete, but those that are `known`.
    pub fn complete(&self, known: impl Fn(&Name) -> bool) -> Result<Vec<Name>> {
        let mut state = self.state.lock();
        let closed = std::mem::take(&mut *self.told.closed.lock());
        let mut complete = Vec::new();
        for path in closed {
            // Not what a symbolic link leads to.
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
        let shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().as_bytes().starts_with(b".");
        for entry in WalkDir::new(&self.root).sort_by_file_name().into_iter().filter_entry(shown) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(e) => {
                    self.cannot_look(state, &e);
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
            // What has been lying there for long needs no second look.
            let age = now.map_or(Duration::ZERO, |identity| identity.age());
            let is_old = waiting.reason.is_none() && age >= waiting.settle;
            if !waiting.stays && (is_old || waiting.since.elapsed() >= waiting.settle) {
                complete.push(name.clone());
            }
            state.waiting.insert(name, waiting);
        }
        Ok(())
    }

    /// A folder cannot be looked into, or has just gone.
    fn cannot_look(&self, state: &mut State, error: &walkdir::Error) {
        let gone = error.io_error().is_some_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        let below = error.path().and_then(|path| path.strip_prefix(&self.root).ok());
        if let Some(below) = below.filter(|_| !gone) {
            let reason = format!("it cannot be looked into: {error}");
            let waiting = Waiting { reason: Some(reason), stays: true, ..Waiting::new(None, self.settle.time) };
            state.waiting.insert(below.as_os_str().as_bytes().into(), waiting);
        }
    }

    /// The path below the directory; none where it is hidden, or no name that a destination may have.
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

    /// A file is taken.
    pub fn taken(&self, name: &Name) {
        self.state.lock().waiting.remove(name);
    }

    /// A file is not complete, for this reason, and is to be left alone for `settle`.
    pub fn later(&self, name: &Name, reason: &str, settle: Duration) {
        self.put_off(name, reason, settle, false);
    }

    /// A file is not to be taken until it changes, for this reason.
    pub fn stays(&self, name: &Name, reason: &str) {
        self.put_off(name, reason, self.settle.time, true);
    }

    fn put_off(&self, name: &Name, reason: &str, settle: Duration, stays: bool) {
        let path = self.root.join(std::ffi::OsStr::from_bytes(name));
        let identity = path.symlink_metadata().ok().map(|metadata| Identity::of(&metadata));
        let mut state = self.state.lock();
        let new = Waiting::new(identity, settle);
        let first = state.waiting.get(name).map_or(new.first, |waiting| waiting.first);
        state.waiting.insert(name.clone(), Waiting { first, reason: Some(reason.into()), stays, ..new });
    }

    /// A file has changed while it was delivered.
    pub fn changed(&self, name: &Name, reason: &str) {
        self.put_off(name, reason, self.settle.time, false);
        *self.state.lock().changes.entry(name.clone()).or_default() += 1;
    }

    /// Whether a stream that is to end waits for files to become complete.
    pub fn any_left(&self) -> bool {
        let state = self.state.lock();
        let changes = |name: &Name| state.changes.get(name).copied().unwrap_or(0);
        let is_waited_for = |(name, waiting): (&Name, &Waiting)| !waiting.is_given_up() && changes(name) < MAX_CHANGES;
        state.waiting.iter().any(is_waited_for) || !self.told.closed.lock().is_empty() || state.walked.is_none()
    }

    /// The files that are not taken.
    pub fn untaken(&self) -> Vec<Untaken> {
        let state = self.state.lock();
        let untaken = |(name, waiting): (&Name, &Waiting)| Untaken {
            name: name.clone(),
            bytes: waiting.identity.map_or(0, |identity| identity.size),
            reason: waiting.reason.clone(),
        };
        state.waiting.iter().map(untaken).collect()
    }

    /// Returns when something was told, after `limit` at the latest.
    pub fn wait(&self, limit: Duration) {
        let closed = self.told.closed.lock();
        if closed.is_empty() {
            drop(self.told.some.wait_timeout(closed, limit));
        }
    }
}
