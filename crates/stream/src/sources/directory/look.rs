//! Which files of a directory are complete.

use std::collections::{HashMap, HashSet, VecDeque};
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
const WALK: Duration = Duration::from_secs(2);

/// Looks at a directory.
pub struct Look {
    root: PathBuf,
    settled: Duration,
    told: Arc<Told>,
    state: Mutex<State>,
    /// Tells of changes; none where the system cannot.
    _watcher: Option<RecommendedWatcher>,
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
    /// Files that may still be written to: how they were when they last changed, and when that was seen.
    seen: HashMap<Name, (Identity, Instant)>,
    /// Files whose names are no destinations; each is told of once.
    refused: HashSet<PathBuf>,
}

impl Look {
    pub fn new(root: &Path, settled: Duration) -> Result<Look> {
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
            tracing::warn!(%error, root = %root.display(), "it is looked for files every two seconds only");
        }
        std::fs::read_dir(root).map_err(Error::io(format!("reading {}", root.display())))?;
        Ok(Look { root: root.to_owned(), settled, told, state: Mutex::default(), _watcher: watch.ok() })
    }

    /// The files that have become complete, but those that are `known`.
    pub fn complete(&self, known: impl Fn(&Name) -> bool) -> Vec<Name> {
        let mut state = self.state.lock();
        let closed = std::mem::take(&mut *self.told.closed.lock());
        let mut complete = Vec::new();
        for path in closed {
            if path.is_file()
                && let Some(name) = self.name(&mut state, &path)
                && !known(&name)
                && !complete.contains(&name)
            {
                complete.push(name);
            }
        }
        let often = if state.seen.is_empty() { WALK } else { self.settled.min(WALK) };
        if state.walked.is_none_or(|at| at.elapsed() >= often) {
            self.walk(&mut state, &known, &mut complete);
            state.walked = Some(Instant::now());
        }
        state.seen.retain(|name, _| !complete.contains(name));
        complete
    }

    fn walk(&self, state: &mut State, known: impl Fn(&Name) -> bool, complete: &mut Vec<Name>) {
        let mut there = HashSet::new();
        let shown = |entry: &DirEntry| entry.depth() == 0 || !entry.file_name().as_bytes().starts_with(b".");
        for entry in WalkDir::new(&self.root).sort_by_file_name().into_iter().filter_entry(shown).flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let name = if metadata.is_file() { self.name(state, entry.path()) } else { None };
            let Some(name) = name.filter(|name| !known(name) && !complete.contains(name)) else { continue };
            let now = Identity::of(&metadata);
            let (identity, since) = state.seen.entry(name.clone()).or_insert((now, Instant::now()));
            if *identity != now {
                (*identity, *since) = (now, Instant::now());
            }
            // What has been lying there for long needs no second look.
            let old = metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= self.settled));
            if old || since.elapsed() >= self.settled {
                complete.push(name);
            } else {
                there.insert(name);
            }
        }
        state.seen.retain(|name, _| there.contains(name));
    }

    /// The path below the directory; none where it is hidden, or no name that a destination may have.
    fn name(&self, state: &mut State, path: &Path) -> Option<Name> {
        let below = path.strip_prefix(&self.root).ok()?;
        if below.components().any(|part| part.as_os_str().as_bytes().starts_with(b".")) {
            return None;
        }
        let name = below.as_os_str().as_bytes();
        match check_destination(name) {
            Ok(()) => Some(name.into()),
            Err(error) => {
                if state.refused.insert(path.to_owned()) {
                    tracing::error!(%error, "a file stays where it is");
                }
                None
            }
        }
    }

    /// A file has changed while it was on its way.
    pub fn changed(&self, name: &Name) {
        let path = self.root.join(std::ffi::OsStr::from_bytes(name));
        if let Ok(metadata) = std::fs::symlink_metadata(path) {
            self.state.lock().seen.insert(name.clone(), (Identity::of(&metadata), Instant::now()));
        }
    }

    /// Whether files may be there that are not complete, or were not looked at.
    pub fn any_left(&self) -> bool {
        let state = self.state.lock();
        !state.seen.is_empty() || !self.told.closed.lock().is_empty() || state.walked.is_none()
    }

    /// Returns when something was told, after `limit` at the latest.
    pub fn wait(&self, limit: Duration) {
        let closed = self.told.closed.lock();
        if closed.is_empty() {
            drop(self.told.some.wait_timeout(closed, limit));
        }
    }
}
