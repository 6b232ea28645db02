//! The mover's lock: of all processes, the one that holds it works off what others have left.

use std::fs::File;

use terrace_system::Locked;

use crate::store::Inner;
use crate::{Error, Result};

impl Inner {
    /// The lock that one mover of all processes holds; none if another has it.
    pub(crate) fn mover_lock(&self) -> Result<Option<Locked>> {
        self.lock_at_once("mover")
    }

    /// The same, once no other has it.
    pub(crate) fn wait_for_mover_lock(&self) -> Result<Locked> {
        self.wait_for_lock("mover")
    }

    /// A lock by this name on what all processes share, once no other has it.
    pub(super) fn wait_for_lock(&self, name: &str) -> Result<Locked> {
        Locked::wait(self.lock_file(name)?).map_err(Error::io(format!("waiting for the lock {name}")))
    }

    /// A lock by this name on what all processes share; none if another has it.
    pub(super) fn lock_at_once(&self, name: &str) -> Result<Option<Locked>> {
        Locked::at_once(self.lock_file(name)?).map_err(Error::io(format!("locking {name}")))
    }

    fn lock_file(&self, name: &str) -> Result<File> {
        let path = self.dir.join(name);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        file.map_err(Error::io(format!("opening {}", path.display())))
    }
}
