//! Which files are open, and what is kept back of each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rustix_futex_sync::{Mutex, RwLock};
use terrace_catalog::Kind;
use terrace_format::key;

use super::dirty::Dirty;
use super::spare::Spare;
use super::stat::Stat;
use super::{File, FileResult, Files, path};

/// A file that somebody has open.
pub struct Open {
    /// The object's number.
    pub id: u64,
    /// The rest. The lock orders reads and writes of the file, and is held while its bytes are written. A thread that holds it
    /// may not take the lock of names. Only a thread with the lock of names holds the locks of several files.
    pub state: RwLock<State>,
}

/// The changing state of an open file.
pub struct State {
    /// Its key now.
    pub key: Vec<u8>,
    /// Whether it was removed, and its key is a hidden one.
    pub unlinked: bool,
    /// The bytes that are kept back.
    pub dirty: Dirty,
    /// Whether that was appended: its place is decided when it is written.
    pub appends: bool,
    /// When the first of these bytes was written, and when the last: nanoseconds since 1970.
    pub written: Option<(Instant, i64)>,
    /// Bytes could not be written in the background, or after they had been accepted: told to the next who flushes.
    pub failed: Option<super::FileError>,
}

impl State {
    /// Shows a file as it will be when nothing is kept back any more.
    pub fn show(&self, stat: &mut Stat) {
        stat.length = stat.length.max(self.dirty.end());
        if let Some((_, time)) = self.written {
            stat.modified = time;
            stat.changed = stat.changed.max(time);
        }
        stat.links = u32::from(!self.unlinked);
    }
}

/// The open files by their objects' numbers, and how many handles each has.
pub struct OpenFiles {
    all: Mutex<HashMap<u64, (Arc<Open>, usize)>>,
    spare: Arc<Spare>,
}

impl OpenFiles {
    /// None; what is kept back of them is cut at multiples of `block`.
    pub fn new(block: usize) -> OpenFiles {
        OpenFiles { all: Mutex::default(), spare: Arc::new(Spare::new(block)) }
    }

    /// The file, if it is open.
    pub fn find(&self, id: u64) -> Option<Arc<Open>> {
        self.all.lock().get(&id).map(|(open, _)| open.clone())
    }

    /// All.
    pub fn all(&self) -> Vec<Arc<Open>> {
        self.all.lock().values().map(|(open, _)| open.clone()).collect()
    }

    /// One handle more.
    pub fn enter(&self, id: u64, key: &[u8]) -> Arc<Open> {
        let mut all = self.all.lock();
        let (open, handles) = all.entry(id).or_insert_with(|| {
            let dirty = Dirty::new(&self.spare);
            let state =
                State { key: key.to_vec(), unlinked: false, dirty, appends: false, written: None, failed: None };
            (Arc::new(Open { id, state: RwLock::new(state) }), 0)
        });
        *handles += 1;
        open.clone()
    }

    /// One handle less; whether it was the last.
    pub fn leave(&self, id: u64) -> bool {
        let mut all = self.all.lock();
        let Some((_, handles)) = all.get_mut(&id) else { return false };
        *handles -= 1;
        let last = *handles == 0;
        if last {
            all.remove(&id);
        }
        last
    }

    /// One handle more of a file that has some.
    fn again(&self, id: u64) -> Option<Arc<Open>> {
        self.all.lock().get_mut(&id).map(|(open, handles)| {
            *handles += 1;
            open.clone()
        })
    }
}

impl Files {
    /// Opens a file.
    pub fn open(&self, path: &[u8]) -> FileResult<File> {
        let _names = self.shared.names.lock();
        path::check(path)?;
        let stat = self.shared.find(path)?.ok_or_else(|| self.shared.missing(path))?;
        if stat.special.is_some() {
            return Err(super::FileError::Invalid { path: key::show(path), reason: "it is no regular file" });
        }
        match (stat.kind, stat.id) {
            (Kind::File, Some(id)) => Ok(File::new(self.shared.clone(), self.shared.open.enter(id, path))),
            (Kind::Symlink, _) => {
                Err(super::FileError::Invalid { path: key::show(path), reason: "it is a symbolic link" })
            }
            _ => Err(super::FileError::IsDirectory(key::show(path))),
        }
    }

    /// Another handle of a file that is open, even if it was removed. What is kept back stays so when it is dropped.
    pub fn opened(&self, id: u64) -> Option<File> {
        let shared = self.shared.clone();
        self.shared.open.again(id).map(|open| File { shared, open, flushes: false, course: Mutex::default() })
    }
}
