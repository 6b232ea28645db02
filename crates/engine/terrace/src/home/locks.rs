//! Named locks on files of the store's directory. One of all processes holds each.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use terrace_system::Locked;

use crate::{Error, Result};

/// The name of the mover's lock. Its holder also makes the replicas that other processes left pending.
const MOVER_LOCK: &str = "mover";

/// The locks of the store in one directory.
pub struct Locks {
    dir: PathBuf,
    /// The [`Duty`] of this process. Relaxed: a process that learns a moment late of another one does no harm, because the catalog checks
    /// each of its changes.
    duty: AtomicU8,
}

/// The replicas that a process may move although it has not written them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Duty {
    /// None.
    Nothing,
    /// Those on the targets of this machine's node, which shares the store with others.
    Own,
    /// Those too, and whatever belongs to no node.
    All,
}

impl Locks {
    /// Creates the locks of the store in `dir`.
    pub fn new(dir: &Path) -> Locks {
        Locks { dir: dir.to_owned(), duty: AtomicU8::new(Duty::All as u8) }
    }

    /// Says which replicas this process may move. At first it may move all.
    pub fn set_duty(&self, duty: Duty) {
        self.duty.store(duty as u8, Ordering::Relaxed); // see the field
    }

    /// Returns whether this process may move replicas.
    pub fn may_move(&self) -> bool {
        self.duty.load(Ordering::Relaxed) != Duty::Nothing as u8 // see the field
    }

    /// Returns whether this process does what is done once for the whole store.
    pub fn may_move_all(&self) -> bool {
        self.duty.load(Ordering::Relaxed) == Duty::All as u8 // see the field
    }

    /// Takes the mover's lock, or returns none if another process has it, or this process may not move replicas.
    pub fn mover_at_once(&self) -> Result<Option<Locked>> {
        if self.may_move() { self.at_once(MOVER_LOCK) } else { Ok(None) }
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
