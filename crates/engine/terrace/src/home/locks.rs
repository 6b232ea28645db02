//! Locks by name on files of the store's directory: of all processes, one holds each.

use std::fs::File;
use std::path::{Path, PathBuf};

use terrace_system::Locked;

use crate::{Error, Result};

/// The name of the mover's lock: who holds it works off what other processes have left.
const MOVER_LOCK: &str = "mover";

/// The locks of the store in one directory.
pub struct Locks {
    dir: PathBuf,
}

impl Locks {
    /// Of the store in `dir`.
    pub fn new(dir: &Path) -> Locks {
        Locks { dir: dir.to_owned() }
    }

    /// The lock that one mover of all processes holds; none if another has it.
    pub fn mover_at_once(&self) -> Result<Option<Locked>> {
        self.at_once(MOVER_LOCK)
    }

    /// The lock that one mover of all processes holds, once no other has it.
    pub fn wait_for_mover(&self) -> Result<Locked> {
        self.wait_for(MOVER_LOCK)
    }

    /// The lock by this name, once no other has it.
    pub fn wait_for(&self, name: &str) -> Result<Locked> {
        Locked::wait(self.file(name)?).map_err(Error::io(format!("waiting for the lock {name}")))
    }

    /// The lock by this name; none if another has it.
    pub fn at_once(&self, name: &str) -> Result<Option<Locked>> {
        Locked::at_once(self.file(name)?).map_err(Error::io(format!("locking {name}")))
    }

    /// Whether a holder has the lock by this name. Two who ask at once do not take each other for the holder.
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
