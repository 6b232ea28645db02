//! The open files and their buffered bytes.

use std::collections::HashMap;
use std::sync::Arc;

use rustix_futex_sync::{Mutex, RwLock};
use terrace_catalog::Kind;
use terrace_format::key;

use super::dirty::Dirty;
pub use super::open_state::{Open, State};
use super::others::Others;
use super::spare::Spare;
use super::{File, FileError, FileResult, Files, path};
use crate::origins::is_at_origin;

/// The open files by their objects' numbers, and the number of handles of each.
pub struct OpenFiles {
    all: Mutex<HashMap<u64, (Arc<Open>, usize)>>,
    spare: Arc<Spare>,
    /// The files that other processes have open.
    pub others: Others,
}

impl OpenFiles {
    /// Creates an empty set of files, whose buffers have blocks of `block` bytes.
    pub fn new(block: usize, others: Others) -> OpenFiles {
        OpenFiles { all: Mutex::default(), spare: Arc::new(Spare::new(block)), others }
    }

    /// Returns the file with this number, if it is open.
    pub fn find(&self, id: u64) -> Option<Arc<Open>> {
        self.all.lock().get(&id).map(|(open, _)| open.clone())
    }

    /// Returns all open files.
    pub fn all(&self) -> Vec<Arc<Open>> {
        self.all.lock().values().map(|(open, _)| open.clone()).collect()
    }

    /// Adds a handle of a file, with all that others have written of it until now.
    pub fn enter(&self, id: u64, key: &[u8]) -> Arc<Open> {
        let mut all = self.all.lock();
        let is_new = !all.contains_key(&id);
        let (open, handles) = all.entry(id).or_insert_with(|| {
            self.others.enter(id);
            let dirty = Dirty::new(&self.spare);
            let state =
                State { key: key.to_vec(), unlinked: false, dirty, appends: false, written: None, failed: None };
            (Arc::new(Open { id, state: RwLock::new(state) }), 0)
        });
        *handles += 1;
        let open = open.clone();
        drop(all);
        if is_new {
            self.others.wait_for_buffered(id);
        }
        open
    }

    /// Removes a handle. Returns whether it was the last.
    pub fn leave(&self, id: u64) -> bool {
        let mut all = self.all.lock();
        let Some((_, handles)) = all.get_mut(&id) else { return false };
        *handles -= 1;
        let last = *handles == 0;
        if last {
            all.remove(&id);
            self.others.leave(id);
        }
        last
    }

    /// Adds a handle of a file that is open already.
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
        path::check(path)?;
        self.shared.refresh(path)?;
        let _names = self.shared.names.lock();
        path::check(path)?;
        let stat = self.shared.find(path)?.ok_or_else(|| self.shared.missing(path))?;
        if stat.special.is_some() {
            return Err(FileError::Invalid { path: key::show(path), reason: "it is not a regular file" });
        }
        match (stat.kind, stat.id) {
            (Kind::File, Some(id)) => Ok(File::new(self.shared.clone(), self.shared.open.enter(id, path))),
            (Kind::Symlink, _) => Err(FileError::Invalid { path: key::show(path), reason: "it is a symbolic link" }),
            _ => Err(FileError::IsDirectory(key::show(path))),
        }
    }

    /// Returns another handle of a file that is open, even if it was removed. Dropping this handle does not write buffered
    /// bytes.
    pub fn opened(&self, id: u64) -> Option<File> {
        let shared = self.shared.clone();
        self.shared.open.again(id).map(|open| File {
            shared,
            open,
            flushes: false,
            course: Mutex::default(),
            held: Mutex::default(),
        })
    }
}

impl File {
    /// Returns the generation of the file's bytes, which grows with each change of them by any process. None while bytes of the file are
    /// buffered here, because readers already see these, and for a file of an origin, some of whose bytes may be fetched again.
    pub fn generation(&self) -> FileResult<Option<u64>> {
        // The lock keeps bytes from being buffered between the two looks.
        let state = self.open.state.read();
        if state.written.is_some() {
            return Ok(None);
        }
        let object = self.shared.object(&state.key)?.filter(|object| object.id == self.open.id);
        let object = object.ok_or_else(|| FileError::stale(&state.key))?;
        Ok((!is_at_origin(&object)).then_some(object.generation))
    }
}
