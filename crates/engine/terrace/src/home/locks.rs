//! Named locks on files of the store's directory. One of all processes holds each.

use std::fs::File;
use std::path::{Path, PathBuf};

use terrace_system::Locked;

use crate::{Error, Result};

/// The name of the mover's lock. Its holder also makes the replicas that other processes left pending.
const MOVER_LOCK: &str = "mover";

/// The locks of the store in one directory.
pub struct Locks {
    dir: PathBuf,
}

impl Locks {
    /// Creates the locks of the store in `dir`.
    pub fn new(dir: &Path) -> Locks {
        Locks { dir: dir.to_owned() }
    }

    /// Takes the mover's lock, or returns none if another process has it.
    pub fn mover_at_once(&self) -> Result<Option<Locked>> {
        self.at_once(MOVER_LOCK)
    }

    /// Waits for the mover's lock.
    pub fn wait_for_mover(&self) -> Result<Locked> {
        self.wait_for(MOVER_LOCK)
    }

    /// Waits for the lock with this name.
    pub fn wait_for(&self, name: &str) -> Result<Locked> {
        Locked::wait(self.file(name)?).map_err(Error::io(format!("waiting for the lock {name}")))
    }

    /// Takes the lock with this name, or returns none if another process has it.
    pub fn at_once(&self, name: &str) -> Result<Option<Locked>> {
        Locked::at_once(self.file(name)?).map_err(Error::io(format!("locking {name}")))
    }

    /// Returns whether a process holds the lock with this name. Two callers at the same time do not mistake each other for
    /// the holder.
    pub fn is_held(&self, name: &str) -> bool {
        let file = File::open(self.dir.join(name));
        file.is_ok_and(|file| Locked::share_at_once(file).is_ok_and(|locked| locked.is_none()))
    }

    fn file(&self, name: &str) -> Result<File> {
        let path = self.dir.join(name);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        file.map_err(Error::io(format!("opening {}", path.display())))
    }
}
