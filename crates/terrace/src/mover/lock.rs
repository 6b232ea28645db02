//! The mover's lock: of all processes, the one that holds it works off what others have left.

use std::fs::File;

use rustix::fs::FlockOperation;

use crate::store::Inner;
use crate::{Error, Result};

impl Inner {
    /// The lock that one mover of all processes holds; none if another has it.
    pub(crate) fn mover_lock(&self) -> Result<Option<File>> {
        self.lock_at_once("mover")
    }

    /// The same, once no other has it.
    pub(crate) fn wait_for_mover_lock(&self) -> Result<File> {
        let file = self.lock_file("mover")?;
        let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive));
        locked.map_err(|e| Error::io("waiting for the mover's lock")(e.into()))?;
        Ok(file)
    }

    /// A lock by this name on what all processes share; none if another has it.
    pub(super) fn lock_at_once(&self, name: &str) -> Result<Option<File>> {
        let file = self.lock_file(name)?;
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(locked.is_ok().then_some(file))
    }

    fn lock_file(&self, name: &str) -> Result<File> {
        let path = self.dir.join(name);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        file.map_err(Error::io(format!("opening {}", path.display())))
    }
}
